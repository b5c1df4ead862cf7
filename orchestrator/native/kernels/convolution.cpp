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

struct PackedConvolution : Packed {
  Operator op;
  int64_t dims = 0, in = 0, out = 0;
  // What it was last shaped for, and what comes out.
  int64_t batch = -1, height = -1, width = -1;
  size_t out_height = 0, out_width = 0;
  size_t threads = 0;
  int64_t area = 0, strides = 1; // multiplications for one number of the result; see `compute`
  std::vector<char> workspace;
  size_t workspace_alignment = 1;
};

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

// The kernel with its channels last, as XNNPACK wants it, and the bias, normalised.
void fold(const Tensor& weight, const Tensor& bias, const Normalisation& norm, float* kernel,
          float* summands) {
  const int64_t out = weight.size(0), in = weight.size(1), area = weight.numel() / (out * in);
  for (int64_t o = 0; o < out; ++o) {
    double factor = 1, summand = bias.defined() ? data_of(bias)[o] : 0;
    if (norm.mean.defined()) {
      factor = 1 / std::sqrt(double(data_of(norm.variance)[o]) + norm.epsilon);
      factor *= norm.scale.defined() ? data_of(norm.scale)[o] : 1;
      summand = (summand - data_of(norm.mean)[o]) * factor;
      summand += norm.shift.defined() ? data_of(norm.shift)[o] : 0;
    }
    summands[o] = float(summand);
    const float* source = data_of(weight) + o * in * area;
    float* target = kernel + o * in * area;
    for (int64_t i = 0; i < in; ++i) {
      for (int64_t at = 0; at < area; ++at) {
        target[at * in + i] = float(source[i * area + at] * factor);
      }
    }
  }
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
      : Site(std::move(steps), 0), positions_(positions) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    Tensor weight, bias;
    if (!read_tensor(given.main[1], &weight) || !weight.defined() ||
        !read_tensor(given.main[2], &bias) || !weight.is_contiguous() || weight.dim() < 3 ||
        weight.dim() > 4) {
      return nullptr;
    }
    auto packed = std::make_unique<PackedConvolution>();
    packed->dims = weight.dim() - 2;
    const int64_t out = weight.size(0), in = weight.size(1), width = weight.size(-1);
    const int64_t height = packed->dims == 2 ? weight.size(2) : 1;
    Geometry g;
    Normalisation norm;
    if (!read_geometry(given.main, positions_, size_t(packed->dims), &g) || out % g.groups != 0 ||
        !is_vector(bias, out) || (given.normalised && !norm.read(given.norm, out))) {
      return nullptr;
    }
    std::vector<float> kernel(size_t(weight.numel()) + size_t(out));
    float* const summands = kernel.data() + weight.numel();
    fold(weight, bias, norm, kernel.data(), summands);
    xnn_operator* made = nullptr;
    if (xnn_create_convolution2d_nhwc_f32(
            g.padding[0], g.padding[1], g.padding[0], g.padding[1], uint32_t(height),
            uint32_t(width), g.stride[0], g.stride[1], g.dilation[0], g.dilation[1],
            uint32_t(g.groups), size_t(in), size_t(out / g.groups), size_t(in * g.groups),
            size_t(out), kernel.data(), summands, given.least, given.most, /*flags=*/0,
            /*code_cache=*/nullptr, /*weights_cache=*/nullptr, &made) != xnn_status_success) {
      return nullptr;
    }
    packed->op.reset(made);
    packed->in = in * g.groups;
    packed->out = out;
    // each is written, too, which takes as long as some
    packed->area = in * height * width + 16;
    packed->strides = int64_t(g.stride[0]) * g.stride[1];
    return packed;
  }

  Tensor compute(Packed& of, const Tensor& input) const override {
    auto& packed = static_cast<PackedConvolution&>(of);
    if (input.dim() != packed.dims + 2 || input.size(1) != packed.in) {
      return Tensor();
    }
    const bool flat = packed.dims == 1;
    const int64_t batch = input.size(0), width = input.size(-1), out = packed.out;
    const int64_t height = flat ? 1 : input.size(2);
    const Tensor images = channels_last_of(input, batch, packed.in, height * width);
    // about so many places come out
    const double places = double(batch * height * width) / packed.strides;
    const pthreadpool_t pool = pool_for(places * double(out * packed.area));
    if (!images.defined() || !shape(packed, batch, height, width, pool)) {
      return Tensor();
    }
    const auto out_height = int64_t(packed.out_height), out_width = int64_t(packed.out_width);
    if (out_height > int64_t(1) << 30 || out_width > int64_t(1) << 30) {
      return Tensor();
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
    if (xnn_setup_convolution2d_nhwc_f32(packed.op.get(), space, data_of(images),
                                         data_of(result)) != xnn_status_success ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return Tensor();
    }
    if (channels_last) {
      return result;
    }
    if (out == 1 || area == 1) { // the same memory, by its other name
      result.unsafeGetTensorImpl()->set_sizes_and_strides({sizes, dims}, {first, dims});
      return result;
    }
    Tensor usual = empty_float({sizes, dims}, {first, dims});
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data_of(result) + n * area * out, data_of(usual) + n * area * out, area, out);
    }
    return usual;
  }

 private:
  static bool shape(PackedConvolution& packed, int64_t batch, int64_t height, int64_t width,
                    pthreadpool_t pool) {
    const size_t threads = pthreadpool_get_threads_count(pool);
    if (packed.batch == batch && packed.height == height && packed.width == width &&
        packed.threads == threads) {
      return true;
    }
    packed.batch = -1;
    size_t workspace = 0;
    if (xnn_reshape_convolution2d_nhwc_f32(
            packed.op.get(), size_t(batch), size_t(height), size_t(width), &workspace,
            &packed.workspace_alignment, &packed.out_height, &packed.out_width,
            pool) != xnn_status_success ||
        packed.out_height == 0 || packed.out_width == 0) {
      return false;
    }
    packed.workspace.resize(workspace + packed.workspace_alignment);
    packed.batch = batch;
    packed.height = height;
    packed.width = width;
    packed.threads = threads;
    return true;
  }

  const Positions positions_;
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
