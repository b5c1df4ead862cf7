// Sites of convolutions: one and two dimensions, transposed ones too; with the batch normalisation and
// the clamp that follow.
#include "convolution.h"
#include "images.h"
#include "pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lta {

using at::Tensor;
using c10::IValue;

const ConvolutionEngine* convolution_engines[2] = {nullptr, nullptr};

namespace {

// A channel's result times `factor` plus `summand`.
struct Normalisation {
  Tensor scale, shift, mean, variance;
  double epsilon = 0;

  // batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, ...)
  bool read(const Arguments& norm, int64_t channels) {
    if (!read_tensor(norm[0], &scale) || !read_tensor(norm[1], &shift) ||
        !read_tensor(norm[2], &mean) || !read_tensor(norm[3], &variance) || !mean.defined() ||
        !variance.defined() || !norm[4].isBool() || norm[4].toBool() || !norm[6].isDouble()) {
      return false;
    }
    epsilon = norm[6].toDouble();
    return is_vector(scale, channels) && is_vector(shift, channels) && is_vector(mean, channels) &&
        is_vector(variance, channels);
  }
};

// The kernel as engines take it, whatever way the weight lies in memory, and the bias; normalised.
void fold(const Convolution& of, const Normalisation& norm, float* kernel, float* summands) {
  const Tensor& weight = of.weight;
  const int64_t outs = of.out() / of.groups, ins = of.in() / of.groups;
  const int64_t height = of.height(), width = of.width();
  const int64_t first = weight.stride(0), second = weight.stride(1);
  const int64_t down = of.dims == 2 ? weight.stride(2) : 0, along = weight.stride(-1);
  for (int64_t o = 0; o < of.out(); ++o) {
    double factor = 1, summand = of.bias.defined() ? data_of(of.bias)[o] : 0;
    if (norm.mean.defined()) {
      factor = 1 / std::sqrt(double(data_of(norm.variance)[o]) + norm.epsilon);
      factor *= norm.scale.defined() ? data_of(norm.scale)[o] : 1;
      summand = (summand - data_of(norm.mean)[o]) * factor;
      summand += norm.shift.defined() ? data_of(norm.shift)[o] : 0;
    }
    summands[o] = float(summand);
    const int64_t group = o / outs;
    const float* source = data_of(weight) +
        (of.transposed ? group * ins * first + o % outs * second : o * first);
    const int64_t next = of.transposed ? first : second;
    float* target = kernel + o * height * width * ins;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t i = 0; i < ins; ++i) {
          *target++ = float(source[i * next + y * down + x * along] * factor);
        }
      }
    }
  }
}

// Whether a kernel is as `fold` would write it: depthwise, or of one pixel.
bool lies_as_engines_take_it(const Convolution& of) {
  return !of.transposed && of.weight.is_contiguous() &&
      (of.in() == of.groups || of.height() * of.width() == 1);
}

// A Site's limits: those of its own clamp, and then of the one that follows.
bool join_limits(const Given& given, const Convolution& own, float* least, float* most) {
  *least = std::min(std::max(own.least, given.least), given.most);
  *most = std::min(std::max(own.most, given.least), given.most);
  // a batch normalisation would have to come between the two
  const bool clamps = std::isfinite(own.least) || std::isfinite(own.most);
  return *least < *most && !(given.normalised && clamps);
}

// Of each result along one dimension.
std::vector<Taps> taps_of(const Convolution& of, int dim, int64_t in, int64_t size) {
  const int64_t stride = of.stride[dim], padding = of.padding[dim], step = of.dilation[dim];
  const int64_t reach = (size - 1) * step + 1;
  // as many as `has_places` lets there be: at least one
  std::vector<Taps> taps(size_t((in + 2 * padding - reach) / stride + 1));
  int64_t first = -padding;
  for (Taps& one : taps) {
    one.skipped = first < 0 ? (-first + step - 1) / step : 0;
    one.first = first + one.skipped * step;
    one.count = one.first < in ? std::min((in - one.first + step - 1) / step, size - one.skipped) : 0;
    first += stride;
  }
  return taps;
}

class ConvolutionSite : public Site {
 public:
  ConvolutionSite(std::vector<Step> steps, ReadConvolution read)
      : Site(std::move(steps), 0), read_(read) {
    takes_none = true;
  }

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    Convolution of;
    Normalisation norm;
    float least, most;
    if (!read_(given.main, &of) || convolution_engines[of.transposed] == nullptr ||
        of.groups <= 0 || of.weight.size(0) % of.groups != 0 || !is_vector(of.bias, of.out()) ||
        (given.normalised && !norm.read(given.norm, of.out())) ||
        !join_limits(given, of, &least, &most)) {
      return nullptr;
    }
    auto packed = std::make_unique<PackedConvolution>();
    packed->of = of;
    // of an image without a batch, a normalisation takes rows for channels
    packed->of.takes_image = of.takes_image && !given.normalised;
    const float* kernel = data_of(of.weight);
    const float* summands = of.bias.defined() ? data_of(of.bias) : nullptr;
    std::vector<float> folded;
    if (given.normalised || !lies_as_engines_take_it(of)) {
      folded.resize(size_t(of.weight.numel()) + size_t(of.out()));
      kernel = folded.data();
      summands = kernel + of.weight.numel();
      fold(of, norm, folded.data(), folded.data() + of.weight.numel());
    }
    if (of.has_large_windows() && computes_large_windows()) {
      LargeWindows& large = packed->large;
      large.channels = of.out();
      large.width = of.width();
      large.least = least;
      large.most = most;
      for (int i = 0; i < 2; ++i) {
        large.dilation[i] = of.dilation[i];
      }
      pack_large_windows(kernel, summands, int64_t(of.height()) * of.width(), &large);
      return packed;
    }
    packed->op.reset(
        convolution_engines[of.transposed]->create(of, kernel, summands, least, most));
    return packed->op ? std::move(packed) : nullptr;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    auto& packed = static_cast<PackedConvolution&>(of);
    const Tensor& input = inputs[0].toTensor();
    const bool alone = packed.of.takes_image && input.dim() == packed.of.dims + 1;
    Results results =
        compute_batch(packed, alone ? as_batch(input) : input, alone || !channels_last);
    if (alone && !results.empty()) {
      leave_batch(results[0]);
    }
    return results;
  }

 private:
  Results compute_batch(PackedConvolution& packed, const Tensor& input, bool in_order) const {
    if (input.dim() != packed.of.dims + 2 || input.size(1) != packed.of.in()) {
      return {};
    }
    const bool flat = packed.of.dims == 1;
    const int64_t batch = input.size(0), width = input.size(-1), out = packed.of.out();
    const int64_t height = flat ? 1 : input.size(2);
    if (height * width == 0) {
      return {};
    }
    const Tensor images = channels_last_of(input, batch, packed.of.in(), height * width);
    const pthreadpool_t pool = pool_for(packed.of.work(double(batch) * double(height * width)));
    const ConvolutionEngine& engine = *convolution_engines[packed.of.transposed];
    if (!packed.op) {
      return compute_large(packed, images, batch, height, width, pool, in_order);
    }
    // XNNPACK finds no size of a result for no image
    if (!shape(engine.reshape, packed, std::max<int64_t>(batch, 1), height, width, pool)) {
      return {};
    }
    const auto out_height = int64_t(packed.out_height), out_width = int64_t(packed.out_width);
    if (out_height > int64_t(1) << 30 || out_width > int64_t(1) << 30) {
      return {};
    }
    const int64_t sizes[4] = {batch, out, flat ? out_width : out_height, out_width};
    Tensor result = empty_images({sizes, flat ? size_t(3) : size_t(4)});
    if (batch == 0) {
      return {result};
    }
    char* space = packed.workspace.data();
    const auto alignment = uintptr_t(packed.workspace_alignment);
    space += (alignment - uintptr_t(space) % alignment) % alignment;
    if (!engine.setup(packed, space, data_of(images), data_of(result)) ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return {};
    }
    return {in_order ? in_usual_order(result) : result};
  }

  Results compute_large(PackedConvolution& packed, const Tensor& images, int64_t batch,
                        int64_t height, int64_t width, pthreadpool_t pool, bool in_order) const {
    const Convolution& of = packed.of;
    LargeWindows& large = packed.large;
    if (large.in_height != height || large.in_width != width) {
      if (!has_places(of, height, width)) {
        return {};
      }
      large.in_height = height;
      large.in_width = width;
      large.down = taps_of(of, 0, height, of.height());
      large.across = taps_of(of, 1, width, of.width());
    }
    const bool flat = of.dims == 1;
    const auto down = int64_t(large.down.size()), across = int64_t(large.across.size());
    const int64_t sizes[4] = {batch, large.channels, flat ? across : down, across};
    Tensor result = empty_images({sizes, flat ? size_t(3) : size_t(4)});
    convolve(large, batch, data_of(images), data_of(result), pool);
    return {in_order ? in_usual_order(result) : result};
  }

  const ReadConvolution read_;
};

// ---- What calls say ----

bool read_weights(const Arguments& given, Convolution* found) {
  if (!read_tensor(given[1], &found->weight) || !found->weight.defined() ||
      !read_tensor(given[2], &found->bias) || found->weight.dim() < 3 || found->weight.dim() > 4) {
    return false;
  }
  found->dims = found->weight.dim() - 2;
  return true;
}

bool read_geometry(const IValue& stride, const IValue& padding, const IValue& dilation,
                   const IValue& groups, Convolution* found) {
  found->groups = groups.isInt() ? groups.toInt() : groups.isNone() ? 1 : 0;
  return read_pair(stride, 1, found->dims, found->stride) &&
      read_pair(padding, 0, found->dims, found->padding) &&
      read_pair(dilation, 1, found->dims, found->dilation);
}

// conv2d(input, weight, bias, stride, padding, dilation, groups)
bool read_plain(const Arguments& given, Convolution* found) {
  found->takes_image = true;
  return read_weights(given, found) &&
      read_geometry(given[3], given[4], given[5], given[6], found);
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
bool read_general(const Arguments& given, Convolution* found) {
  found->transposed = given[6].isBool() && given[6].toBool();
  return given[6].isBool() && read_weights(given, found) &&
      read_geometry(given[3], given[4], given[5], given[8], found) &&
      read_pair(given[7], 0, found->dims, found->output_padding);
}

// conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation)
bool read_transposed(const Arguments& given, Convolution* found) {
  found->takes_image = true;
  found->transposed = true;
  return read_weights(given, found) &&
      read_geometry(given[3], given[4], given[7], given[6], found) &&
      read_pair(given[5], 0, found->dims, found->output_padding);
}

std::unique_ptr<Site> make_plain(std::vector<Step> steps) {
  return make_convolution(std::move(steps), read_plain);
}
std::unique_ptr<Site> make_general(std::vector<Step> steps) {
  return make_convolution(std::move(steps), read_general);
}
std::unique_ptr<Site> make_transposed(std::vector<Step> steps) {
  return make_convolution(std::move(steps), read_transposed);
}

SiteKind kinds[] = {
    {"aten::conv2d", 1, 1, true, true, make_plain, nullptr},
    {"aten::conv1d", 1, 1, true, true, make_plain, nullptr},
    {"aten::convolution", 1, 1, true, true, make_general, nullptr},
    {"aten::_convolution", 1, 1, true, true, make_general, nullptr},
    {"aten::_convolution.deprecated", 1, 1, true, true, make_general, nullptr},
    {"aten::conv_transpose2d.input", 1, 1, true, true, make_transposed, nullptr},
    {"aten::conv_transpose1d", 1, 1, true, true, make_transposed, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1]), ListedKind(&kinds[2]),
                             ListedKind(&kinds[3]), ListedKind(&kinds[4]), ListedKind(&kinds[5]),
                             ListedKind(&kinds[6])};

} // namespace

std::unique_ptr<Site> make_convolution(std::vector<Step> steps, ReadConvolution read) {
  return std::make_unique<ConvolutionSite>(std::move(steps), read);
}

} // namespace lta
