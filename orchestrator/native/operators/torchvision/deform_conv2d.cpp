// `torchvision::deform_conv2d`: a convolution whose kernel's points are moved by offsets, and
// weighted by a mask (Dai et al., Deformable Convolutional Networks, 2017; Zhu et al., Deformable
// ConvNets v2, 2018). What the points see becomes the columns of a matrix product.
#include "sizes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vision {
namespace {

// One of both axes.
struct Axis {
  int64_t size, kernel, stride, padding, dilation;

  // How many places the kernel takes. Each number is less than 2**31.
  int64_t places() const {
    const int64_t left = size + 2 * padding - (dilation * (kernel - 1) + 1);
    TORCH_CHECK(left >= 0, "the kernel is larger than the padded input: by ", -left);
    return left / stride + 1;
  }
};

struct Shape {
  Axis y, x;
  int64_t channels, groups, offset_groups, rows, columns;

  int64_t points() const {
    return y.kernel * x.kernel;
  }
  int64_t places() const {
    return rows * columns;
  }
};

// Where a point of the kernel lies at one place: the four elements around it, and their weights.
// Those outside of the image have the place kOutside.
constexpr int64_t kOutside = -1;

template <typename T>
struct Corners {
  int64_t at[4];
  T weights[4];
  T mask;

  Corners(T y, T x, T mask, int64_t height, int64_t width) : mask(mask) {
    // so that NaN is outside
    if (!(y > -1 && y < static_cast<T>(height) && x > -1 && x < static_cast<T>(width))) {
      for (int n = 0; n < 4; ++n) {
        at[n] = kOutside;
        weights[n] = 0;
      }
      return;
    }
    const int64_t top = static_cast<int64_t>(std::floor(y)), bottom = top + 1;
    const int64_t left = static_cast<int64_t>(std::floor(x)), right = left + 1;
    const T down = y - static_cast<T>(top), across = x - static_cast<T>(left);
    const bool has_top = top >= 0, has_bottom = bottom < height;
    const bool has_left = left >= 0, has_right = right < width;
    at[0] = has_top && has_left ? top * width + left : kOutside;
    at[1] = has_top && has_right ? top * width + right : kOutside;
    at[2] = has_bottom && has_left ? bottom * width + left : kOutside;
    at[3] = has_bottom && has_right ? bottom * width + right : kOutside;
    weights[0] = (1 - down) * (1 - across);
    weights[1] = (1 - down) * across;
    weights[2] = down * (1 - across);
    weights[3] = down * across;
  }

  T of(const T* image) const {
    T sum = 0;
    for (int n = 0; n < 4; ++n) {
      sum += weights[n] * (at[n] == kOutside ? T(0) : image[at[n]]);
    }
    return mask * sum;
  }
};

// What the kernel's points see of one image: [channels, points, places].
// mask: null for 1 everywhere
template <typename T>
void gather(const T* image, const T* offset, const T* mask, const Shape& shape, T* columns) {
  const int64_t places = shape.places(), points = shape.points();
  const int64_t in_group = shape.channels / shape.offset_groups;
  std::vector<Corners<T>> corners;
  corners.reserve(places);
  for (int64_t group = 0; group < shape.offset_groups; ++group) {
    for (int64_t point = 0; point < points; ++point) {
      const int64_t number = group * points + point;
      const T *down = offset + 2 * number * places, *across = down + places;
      const T* weight = mask == nullptr ? nullptr : mask + number * places;
      const int64_t i = point / shape.x.kernel, j = point % shape.x.kernel;
      corners.clear();
      for (int64_t row = 0, at = 0; row < shape.rows; ++row) {
        for (int64_t column = 0; column < shape.columns; ++column, ++at) {
          const int64_t y = row * shape.y.stride - shape.y.padding + i * shape.y.dilation;
          const int64_t x = column * shape.x.stride - shape.x.padding + j * shape.x.dilation;
          corners.emplace_back(
              static_cast<T>(y) + down[at],
              static_cast<T>(x) + across[at],
              weight == nullptr ? T(1) : weight[at],
              shape.y.size,
              shape.x.size);
        }
      }
      for (int64_t c = group * in_group; c < (group + 1) * in_group; ++c) {
        const T* channel = image + c * shape.y.size * shape.x.size;
        T* to = columns + (c * points + point) * places;
        for (int64_t at = 0; at < places; ++at) {
          to[at] = corners[at].of(channel);
        }
      }
    }
  }
}

template <typename T>
void convolve(
    const at::Tensor& input,
    const at::Tensor& weight,
    const at::Tensor& offset,
    const at::Tensor* mask,
    const at::Tensor& bias,
    const Shape& shape,
    const at::Tensor& out) {
  const int64_t places = shape.places(), seen = shape.channels * shape.points();
  const int64_t made = weight.size(0) / shape.groups;
  at::Tensor columns = at::empty({shape.groups, seen / shape.groups, places}, input.options());
  const at::Tensor kernels = weight.view({shape.groups, made, seen / shape.groups});
  const T* biases = bias.data_ptr<T>();
  for (int64_t n = 0; n < input.size(0); ++n) {
    gather(
        input.data_ptr<T>() + n * shape.channels * shape.y.size * shape.x.size,
        offset.data_ptr<T>() + n * offset.size(1) * places,
        mask == nullptr ? nullptr : mask->data_ptr<T>() + n * mask->size(1) * places,
        shape,
        columns.data_ptr<T>());
    T* to = out.data_ptr<T>() + n * weight.size(0) * places;
    for (int64_t group = 0; group < shape.groups; ++group) {
      const at::Tensor product = at::mm(kernels.select(0, group), columns.select(0, group));
      const T* from = product.data_ptr<T>();
      for (int64_t c = group * made; c < (group + 1) * made; ++c) {
        for (int64_t at = 0; at < places; ++at) {
          *to++ = *from++ + biases[c];
        }
      }
    }
  }
}

void require_numbers(const Shape& shape) {
  require_between("stride_h", shape.y.stride, 1);
  require_between("stride_w", shape.x.stride, 1);
  require_between("pad_h", shape.y.padding, 0);
  require_between("pad_w", shape.x.padding, 0);
  require_between("dilation_h", shape.y.dilation, 1);
  require_between("dilation_w", shape.x.dilation, 1);
  require_between("groups", shape.groups, 1);
  require_between("offset_groups", shape.offset_groups, 1);
  require_between("the kernel's height", shape.y.kernel, 1);
  require_between("the kernel's width", shape.x.kernel, 1);
}

void require_sizes(
    const char* name, const at::Tensor& tensor, int64_t images, int64_t channels, const Shape& s) {
  const int64_t expected[] = {images, channels, s.rows, s.columns};
  TORCH_CHECK(
      tensor.sizes() == at::IntArrayRef(expected),
      name, " should have the sizes ", at::IntArrayRef(expected), ", got ", tensor.sizes());
}

at::Tensor deform_conv2d(
    const at::Tensor& input,
    const at::Tensor& weight,
    const at::Tensor& offset,
    const at::Tensor& mask,
    const at::Tensor& bias,
    int64_t stride_h,
    int64_t stride_w,
    int64_t pad_h,
    int64_t pad_w,
    int64_t dilation_h,
    int64_t dilation_w,
    int64_t groups,
    int64_t offset_groups,
    bool use_mask) {
  require_tensor("input", input, 4);
  require_tensor("weight", weight, 4);
  require_tensor("offset", offset, 4);
  require_tensor("bias", bias, 1);
  require_same_type("input", input, "weight", weight);
  require_same_type("input", input, "offset", offset);
  require_same_type("input", input, "bias", bias);
  Shape shape{
      {input.size(2), weight.size(2), stride_h, pad_h, dilation_h},
      {input.size(3), weight.size(3), stride_w, pad_w, dilation_w},
      input.size(1), groups, offset_groups, 0, 0};
  require_numbers(shape);
  const int64_t made = weight.size(0);
  TORCH_CHECK(
      input.size(1) == weight.size(1) * groups,
      "weight takes ", weight.size(1) * groups, " channels in ", groups, " groups, input has ",
      input.size(1));
  TORCH_CHECK(made % groups == 0, "weight's ", made, " channels are not a multiple of ", groups);
  TORCH_CHECK(
      input.size(1) % offset_groups == 0,
      "input's ", input.size(1), " channels are not a multiple of ", offset_groups);
  TORCH_CHECK(bias.size(0) == made, "bias should have ", made, " elements, got ", bias.size(0));
  shape.rows = shape.y.places();
  shape.columns = shape.x.places();
  const int64_t sizes[] = {input.size(0), made, shape.rows, shape.columns};
  const int64_t item = static_cast<int64_t>(input.element_size());
  require_countable("the result", sizes, item);
  // an input may have no channels
  const int64_t seen[] = {
      std::max<int64_t>(input.size(1), 1), offset_groups, 2, shape.y.kernel, shape.x.kernel, shape.rows, shape.columns};
  require_countable("what the kernel sees", seen, static_cast<int64_t>(sizeof(Corners<double>)));
  require_sizes("offset", offset, input.size(0), 2 * offset_groups * shape.points(), shape);
  if (use_mask) {
    require_tensor("mask", mask, 4);
    require_same_type("input", input, "mask", mask);
    require_sizes("mask", mask, input.size(0), offset_groups * shape.points(), shape);
  }
  at::Tensor out = at::empty(sizes, input.options());
  if (out.numel() == 0) {
    return out;
  }
  const at::Tensor images = input.contiguous(), kernels = weight.contiguous();
  const at::Tensor moved = offset.contiguous(), biases = bias.contiguous();
  at::Tensor weights;
  if (use_mask) {
    weights = mask.contiguous();
  }
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "torchvision_deform_conv2d", [&] {
    convolve<scalar_t>(
        images, kernels, moved, use_mask ? &weights : nullptr, biases, shape, out);
  });
  return out;
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, m) {
  m.def(
      "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias,"
      " SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h,"
      " SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, m) {
  m.impl("deform_conv2d", TORCH_FN(deform_conv2d));
}

} // namespace vision
