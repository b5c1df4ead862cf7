// Sites of convolutions: one and two dimensions, transposed ones too; with the batch normalisation and
// the clamp that follow.
#include "convolution.h"
#include "lanes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lta {

using at::Tensor;
using c10::IValue;

const ConvolutionEngine* convolution_engines[2] = {nullptr, nullptr};

bool read_pair(const IValue& value, int64_t otherwise, int64_t dims, uint32_t (&pair)[2]) {
  int64_t read[2] = {otherwise, otherwise};
  if (value.isIntList()) {
    const auto list = value.toIntVector();
    if (list.size() != 1 && list.size() != size_t(dims)) {
      return false;
    }
    read[1] = list.back();
    read[0] = list.size() == 2 ? list[0] : dims == 2 ? list[0] : otherwise;
  } else if (value.isInt()) {
    read[1] = value.toInt();
    read[0] = dims == 2 ? read[1] : otherwise;
  } else if (!value.isNone()) {
    return false;
  }
  for (int i = 0; i < 2; ++i) {
    if (read[i] < 0 || read[i] > 1 << 20) {
      return false;
    }
    pair[i] = uint32_t(read[i]);
  }
  return true;
}

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

// Three rows of four numbers, as an image has them, become four triples that lie side by side.
inline void interleave(Lanes a, Lanes b, Lanes c, float* to) {
  put(__builtin_shufflevector(__builtin_shufflevector(a, b, 0, 4, 1, 5), c, 0, 1, 4, 2), to);
  put(__builtin_shufflevector(__builtin_shufflevector(b, c, 1, 5, 2, 6), a, 0, 1, 6, 2), to + 4);
  put(__builtin_shufflevector(__builtin_shufflevector(c, a, 2, 7, 3, 3), b, 0, 1, 7, 2), to + 8);
}

// Four rows of four numbers.
inline void turn(const float* from, int64_t stride, float* to, int64_t target_stride) {
  const Lanes a = lanes_at(from), b = lanes_at(from + stride);
  const Lanes c = lanes_at(from + 2 * stride), d = lanes_at(from + 3 * stride);
  const Lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Lanes cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Lanes ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  put(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
  put(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + target_stride);
  put(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * target_stride);
  put(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * target_stride);
}

// Rows of `from` become columns of `to`, four by four where there are as many.
void transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  int64_t done = 0; // columns of the first three rows, where there are no more
  if (rows == 3) {
    for (; done + 4 <= columns; done += 4) {
      const float* const at = from + done;
      interleave(lanes_at(at), lanes_at(at + columns), lanes_at(at + 2 * columns), to + 3 * done);
    }
  }
  constexpr int64_t kBlock = 16; // rows whose columns fill a line of the cache
  for (int64_t row = 0; row < rows; row += kBlock) {
    const int64_t last = std::min(row + kBlock, rows);
    int64_t column = done;
    for (; last - row >= 4 && column + 4 <= columns; column += 4) {
      int64_t r = row;
      for (; r + 4 <= last; r += 4) {
        turn(from + r * columns + column, columns, to + column * rows + r, rows);
      }
      for (; r < last; ++r) {
        for (int64_t c = column; c < column + 4; ++c) {
          to[c * rows + r] = from[r * columns + c];
        }
      }
    }
    for (; column < columns; ++column) {
      for (int64_t r = row; r < last; ++r) {
        to[column * rows + r] = from[r * columns + column];
      }
    }
  }
}

// The images with their channels last, as XNNPACK reads them: itself, or a copy. Undefined where it
// lies in memory in another way.
Tensor channels_last_of(const Tensor& input, int64_t batch, int64_t channels, int64_t area) {
  const auto sizes = input.sizes();
  const auto strides = input.strides();
  const int64_t dims = input.dim();
  bool is_last = channels == 1 || strides[1] == 1;
  int64_t expected = channels;
  for (int64_t dim = dims - 1; dim >= 2; --dim) {
    is_last = is_last && (sizes[size_t(dim)] == 1 || strides[size_t(dim)] == expected);
    expected *= sizes[size_t(dim)];
  }
  is_last = is_last && (batch == 1 || strides[0] == expected);
  if (is_last && has_room_behind(input)) {
    return input;
  }
  if (!is_last && !input.is_contiguous()) {
    return Tensor();
  }
  Tensor copy = empty_float({batch * area * channels}, {1});
  float* const to = data_of(copy);
  if (is_last) {
    std::memcpy(to, data_of(input), size_t(batch * area * channels) * sizeof(float));
  } else {
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data_of(input) + n * channels * area, to + n * channels * area, channels, area);
    }
  }
  return copy;
}

// A Site's limits: those of its own clamp, and then of the one that follows.
bool join_limits(const Given& given, const Convolution& own, float* least, float* most) {
  *least = std::min(std::max(own.least, given.least), given.most);
  *most = std::min(std::max(own.most, given.least), given.most);
  // a batch normalisation would have to come between the two
  const bool clamps = std::isfinite(own.least) || std::isfinite(own.most);
  return *least < *most && !(given.normalised && clamps);
}

class ConvolutionSite : public Site {
 public:
  ConvolutionSite(std::vector<Step> steps, ReadConvolution read)
      : Site(std::move(steps), 0), read_(read) {}

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
    const float* kernel = data_of(of.weight);
    const float* summands = of.bias.defined() ? data_of(of.bias) : nullptr;
    std::vector<float> folded;
    if (given.normalised || !lies_as_engines_take_it(of)) {
      folded.resize(size_t(of.weight.numel()) + size_t(of.out()));
      kernel = folded.data();
      summands = kernel + of.weight.numel();
      fold(of, norm, folded.data(), folded.data() + of.weight.numel());
    }
    packed->op.reset(
        convolution_engines[of.transposed]->create(of, kernel, summands, least, most));
    return packed->op ? std::move(packed) : nullptr;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    auto& packed = static_cast<PackedConvolution&>(of);
    const Tensor& input = inputs[0].toTensor();
    if (input.dim() != packed.of.dims + 2 || input.size(1) != packed.of.in()) {
      return {};
    }
    const bool flat = packed.of.dims == 1;
    const int64_t batch = input.size(0), width = input.size(-1), out = packed.of.out();
    const int64_t height = flat ? 1 : input.size(2);
    const Tensor images = channels_last_of(input, batch, packed.of.in(), height * width);
    const pthreadpool_t pool = pool_for(packed.of.work(double(batch) * double(height * width)));
    const ConvolutionEngine& engine = *convolution_engines[packed.of.transposed];
    if (!images.defined() || !shape(engine.reshape, packed, batch, height, width, pool)) {
      return {};
    }
    const auto out_height = int64_t(packed.out_height), out_width = int64_t(packed.out_width);
    if (out_height > int64_t(1) << 30 || out_width > int64_t(1) << 30) {
      return {};
    }
    const int64_t area = out_height * out_width;
    const int64_t sizes[4] = {batch, out, flat ? out_width : out_height, out_width};
    const int64_t last[4] = {area * out, 1, flat ? out : out_width * out, out};
    const int64_t first[4] = {area * out, area, flat ? 1 : out_width, 1};
    const size_t dims = flat ? 3 : 4;
    Tensor result = empty_float({sizes, dims}, {last, dims});
    char* space = packed.workspace.data();
    const auto alignment = uintptr_t(packed.workspace_alignment);
    space += (alignment - uintptr_t(space) % alignment) % alignment;
    if (!engine.setup(packed, space, data_of(images), data_of(result)) ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return {};
    }
    if (channels_last) {
      return {result};
    }
    if (out == 1 || area == 1) { // the same memory, by its other name
      result.unsafeGetTensorImpl()->set_sizes_and_strides({sizes, dims}, {first, dims});
      return {result};
    }
    Tensor usual = empty_float({sizes, dims}, {first, dims});
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data_of(result) + n * area * out, data_of(usual) + n * area * out, area, out);
    }
    return {usual};
  }

 private:
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
