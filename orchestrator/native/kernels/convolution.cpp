// Convolutions through XNNPACK: one and two dimensions, grouped, depthwise, dilated, strided; with
// the batch normalisation and the clamp that follow.
#include "module_sites.h"
#include "xnnpack_operator.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

// How often weights may be others than last time before a Site leaves them to the model's operators.
constexpr int kPatience = 4;

// One or two numbers of a list, or a number for both: `[1, 1]`, `[1]`, `1`.
bool read_pair(const IValue& value, int64_t otherwise, size_t dims, uint32_t (&pair)[2]) {
  int64_t read[2] = {otherwise, otherwise};
  if (value.isIntList()) {
    const auto list = value.toIntVector();
    if (list.size() != 1 && list.size() != dims) {
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

struct Geometry {
  uint32_t stride[2], padding[2], dilation[2];
  int64_t groups;
};

// Where an operator's own arguments stand: conv2d and conv1d, or those that say `transposed` too.
struct Positions {
  bool general;
};

bool read_geometry(const Arguments& given, Positions positions, size_t dims, Geometry* found) {
  const IValue& groups = given[positions.general ? 8 : 6];
  if (positions.general && (!given[6].isBool() || given[6].toBool())) {
    return false;
  }
  found->groups = groups.isInt() ? groups.toInt() : groups.isNone() ? 1 : 0;
  return found->groups > 0 && read_pair(given[3], 1, dims, found->stride) &&
      read_pair(given[4], 0, dims, found->padding) &&
      read_pair(given[5], 1, dims, found->dilation) && found->stride[0] > 0 &&
      found->stride[1] > 0 && found->dilation[0] > 0 && found->dilation[1] > 0;
}

// A weight or a factor, which may be left out: `none` gives an undefined tensor.
bool read_tensor(const IValue& value, Tensor* tensor) {
  if (value.isTensor()) {
    *tensor = value.toTensor();
    return true;
  }
  return value.isNone();
}

// The tensors that a packed convolution was made of. Holding them keeps their addresses from being
// given to others.
struct Sources {
  Tensor weight, bias, scale, shift, mean, variance;
  double epsilon = 0;
  Geometry geometry;
  Limits clamp;

  bool operator==(const Sources& other) const {
    return weight.is_same(other.weight) && bias.is_same(other.bias) &&
        scale.is_same(other.scale) && shift.is_same(other.shift) && mean.is_same(other.mean) &&
        variance.is_same(other.variance) && epsilon == other.epsilon &&
        std::memcmp(&geometry, &other.geometry, sizeof geometry) == 0 &&
        clamp.least == other.clamp.least && clamp.most == other.clamp.most;
  }
};

struct Packed {
  Sources sources;
  Operator op;
  // What it was last shaped for, and what comes out.
  int64_t batch = -1, height = -1, width = -1;
  size_t out_height = 0, out_width = 0;
  std::vector<char> workspace;
  size_t workspace_alignment = 1;
};

bool is_vector(const Tensor& tensor, int64_t size) {
  return !tensor.defined() ||
      (is_plain(tensor) && tensor.dim() == 1 && tensor.size(0) == size && tensor.is_contiguous());
}

const float* data_of(const Tensor& tensor) {
  return static_cast<const float*>(tensor.unsafeGetTensorImpl()->data());
}

// Packs the weights; null where XNNPACK has no such convolution.
std::unique_ptr<Packed> pack(const Sources& from) {
  const Tensor& weight = from.weight;
  const size_t dims = size_t(weight.dim()) - 2;
  const int64_t out = weight.size(0), in = weight.size(1), groups = from.geometry.groups;
  const int64_t height = dims == 2 ? weight.size(2) : 1, width = weight.size(int64_t(dims) + 1);
  if (out % groups != 0 || !weight.is_contiguous() || !is_vector(from.bias, out) ||
      !is_vector(from.scale, out) || !is_vector(from.shift, out) || !is_vector(from.mean, out) ||
      !is_vector(from.variance, out) || from.mean.defined() != from.variance.defined()) {
    return nullptr;
  }
  // Channels last, as XNNPACK wants them; normalisation is a factor and a summand of each channel.
  const int64_t area = height * width;
  std::vector<float> kernel(size_t(out * in * area)), bias(size_t(out), 0.0f);
  for (int64_t o = 0; o < out; ++o) {
    double factor = 1, summand = from.bias.defined() ? data_of(from.bias)[o] : 0;
    if (from.mean.defined()) {
      factor = 1 / std::sqrt(double(data_of(from.variance)[o]) + from.epsilon);
      factor *= from.scale.defined() ? data_of(from.scale)[o] : 1;
      summand = (summand - data_of(from.mean)[o]) * factor;
      summand += from.shift.defined() ? data_of(from.shift)[o] : 0;
    }
    bias[size_t(o)] = float(summand);
    const float* source = data_of(weight) + o * in * area;
    float* target = kernel.data() + o * in * area;
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t at = 0; at < area; ++at) {
        target[at * in + i] = float(source[i * area + at] * factor);
      }
    }
  }
  auto packed = std::make_unique<Packed>();
  xnn_operator* made = nullptr;
  const Geometry& g = from.geometry;
  const xnn_status status = xnn_create_convolution2d_nhwc_f32(
      g.padding[0], g.padding[1], g.padding[0], g.padding[1], uint32_t(height), uint32_t(width),
      g.stride[0], g.stride[1], g.dilation[0], g.dilation[1], uint32_t(groups), size_t(in),
      size_t(out / groups), size_t(in * groups), size_t(out), kernel.data(), bias.data(),
      from.clamp.least, from.clamp.most, /*flags=*/0, /*code_cache=*/nullptr,
      /*weights_cache=*/nullptr, &made);
  if (status != xnn_status_success) {
    return nullptr;
  }
  packed->op.reset(made);
  packed->sources = from;
  return packed;
}

// Rows of `from` become columns of `to`.
void transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 16;
  for (int64_t row = 0; row < rows; row += kBlock) {
    const int64_t last = row + kBlock < rows ? row + kBlock : rows;
    for (int64_t column = 0; column < columns; ++column) {
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
  auto* to = static_cast<float*>(copy.unsafeGetTensorImpl()->data());
  if (is_last) {
    std::memcpy(to, data_of(input), size_t(batch * area * channels) * sizeof(float));
  } else {
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data_of(input) + n * channels * area, to + n * channels * area, channels, area);
    }
  }
  return copy;
}

class ConvolutionSite : public Site {
 public:
  ConvolutionSite(std::vector<Step> steps, Positions positions)
      : Site(std::move(steps)), positions_(positions) {}

 protected:
  Tensor compute(const std::vector<Arguments>& arguments) override {
    if (misses_ > kPatience || !arguments[0][0].isTensor()) {
      return Tensor();
    }
    Sources sources;
    const Tensor& input = arguments[0][0].toTensor();
    if (!is_plain(input) || !read_sources(arguments, &sources) || !xnnpack_is_ready()) {
      return Tensor();
    }
    const int64_t dims = sources.weight.dim() - 2;
    if (dims < 1 || dims > 2 || input.dim() != dims + 2 ||
        input.size(1) != sources.weight.size(1) * sources.geometry.groups) {
      return Tensor();
    }
    auto packed = shelf_.take();
    if (!packed || !(packed->sources == sources)) {
      misses_ += packed ? 1 : 0;
      packed = pack(sources);
    }
    Tensor result = packed ? convolve(*packed, input) : Tensor();
    if (result.defined()) {
      shelf_.put(std::move(packed));
    } else {
      misses_ = kPatience + 1;
    }
    return result;
  }

 private:
  bool read_sources(const std::vector<Arguments>& arguments, Sources* sources) const {
    if (!arguments[0][1].isTensor() || !read_tensor(arguments[0][2], &sources->bias) ||
        !limits(arguments, &sources->clamp)) {
      return false;
    }
    sources->weight = arguments[0][1].toTensor();
    if (!is_plain(sources->weight) || sources->weight.dim() < 3 ||
        !read_geometry(arguments[0], positions_, size_t(sources->weight.dim()) - 2,
                       &sources->geometry)) {
      return false;
    }
    for (size_t i = 1; i < steps_.size(); ++i) {
      if (steps_[i].follower == Follower::kBatchNorm) {
        // batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, ...)
        const Arguments& norm = arguments[i];
        if (!read_tensor(norm[0], &sources->scale) || !read_tensor(norm[1], &sources->shift) ||
            !norm[2].isTensor() || !norm[3].isTensor() || !norm[4].isBool() ||
            norm[4].toBool() || !norm[6].isDouble()) {
          return false;
        }
        sources->mean = norm[2].toTensor();
        sources->variance = norm[3].toTensor();
        sources->epsilon = norm[6].toDouble();
        if (!sources->mean.defined() || !sources->variance.defined()) {
          return false;
        }
      }
    }
    return true;
  }

  Tensor convolve(Packed& packed, const Tensor& input) const {
    const Sources& from = packed.sources;
    const bool flat = input.dim() == 3;
    const int64_t batch = input.size(0), channels = input.size(1);
    const int64_t height = flat ? 1 : input.size(2), width = input.size(flat ? 2 : 3);
    const Tensor images = channels_last_of(input, batch, channels, height * width);
    if (!images.defined()) {
      return Tensor();
    }
    if (packed.batch != batch || packed.height != height || packed.width != width) {
      size_t workspace = 0;
      packed.batch = -1;
      if (xnn_reshape_convolution2d_nhwc_f32(
              packed.op.get(), size_t(batch), size_t(height), size_t(width), &workspace,
              &packed.workspace_alignment, &packed.out_height, &packed.out_width,
              /*threadpool=*/nullptr) != xnn_status_success) {
        return Tensor();
      }
      packed.workspace.resize(workspace + packed.workspace_alignment);
      packed.batch = batch;
      packed.height = height;
      packed.width = width;
    }
    const int64_t out = from.weight.size(0);
    const auto out_height = int64_t(packed.out_height), out_width = int64_t(packed.out_width);
    const int64_t area = out_height * out_width;
    if (area <= 0) {
      return Tensor();
    }
    const int64_t sizes[4] = {batch, out, flat ? out_width : out_height, out_width};
    const int64_t last[4] = {area * out, 1, flat ? out : out_width * out, out};
    const int64_t first[4] = {area * out, area, flat ? 1 : out_width, 1};
    const size_t dims = flat ? 3 : 4;
    Tensor result = empty_float({sizes, dims}, {last, dims});
    auto* data = static_cast<float*>(result.unsafeGetTensorImpl()->data());
    char* space = packed.workspace.data();
    const auto alignment = uintptr_t(packed.workspace_alignment);
    space += (alignment - uintptr_t(space) % alignment) % alignment;
    if (xnn_setup_convolution2d_nhwc_f32(packed.op.get(), space, data_of(images), data) !=
            xnn_status_success ||
        xnn_run_operator(packed.op.get(), nullptr) != xnn_status_success) {
      return Tensor();
    }
    if (channels_last || out == 1 || area == 1) {
      if (!channels_last) { // the same memory, called by its other name
        result.unsafeGetTensorImpl()->set_sizes_and_strides({sizes, dims}, {first, dims});
      }
      return result;
    }
    Tensor usual = empty_float({sizes, dims}, {first, dims});
    auto* to = static_cast<float*>(usual.unsafeGetTensorImpl()->data());
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data + n * area * out, to + n * area * out, area, out);
    }
    return usual;
  }

  const Positions positions_;
  Shelf<Packed> shelf_;
  std::atomic<int> misses_{0};
};

std::unique_ptr<Site> make_plain(std::vector<Step> steps) {
  return std::make_unique<ConvolutionSite>(std::move(steps), Positions{false});
}
std::unique_ptr<Site> make_general(std::vector<Step> steps) {
  return std::make_unique<ConvolutionSite>(std::move(steps), Positions{true});
}

SiteKind kinds[] = {
    {"aten::conv2d", 1, true, make_plain, nullptr},
    {"aten::conv1d", 1, true, make_plain, nullptr},
    {"aten::convolution", 1, true, make_general, nullptr},
    {"aten::_convolution", 1, true, make_general, nullptr},
    {"aten::_convolution.deprecated", 1, true, make_general, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1]), ListedKind(&kinds[2]),
                             ListedKind(&kinds[3]), ListedKind(&kinds[4])};

} // namespace
} // namespace lta
