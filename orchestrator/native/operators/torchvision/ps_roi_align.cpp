// `torchvision::ps_roi_align`: as roi_align, but each bin has channels of its own
// (Dai et al., R-FCN, 2016, equation 1; Li et al., Light-Head R-CNN, 2017).
#include "regions.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

namespace vision {
namespace {

template <typename T>
void align(
    const at::Tensor& input,
    const at::Tensor& rois,
    T scale,
    int64_t ratio,
    const at::Tensor& out,
    int32_t* mapping) {
  const int64_t channels = input.size(1), rows = input.size(2), columns = input.size(3);
  const int64_t height = out.size(2), width = out.size(3);
  const T* in = input.data_ptr<T>();
  T* to = out.data_ptr<T>();
  for (int64_t k = 0; k < rois.size(0); ++k) {
    const T* region = rois.data_ptr<T>() + 5 * k;
    const int64_t image = image_of(region[0], input.size(0));
    const T left = region[1] * scale - T(0.5), top = region[2] * scale - T(0.5);
    const T across = region[3] * scale - T(0.5) - left, down = region[4] * scale - T(0.5) - top;
    const Axis<T> y(top, down, height, ratio, rows), x(left, across, width, ratio, columns);
    // a region without an extent has no points, and no mean
    const T count = static_cast<T>(y.grid * x.grid);
    int64_t channel = 0;
    for (int64_t c = 0; c < out.size(1); ++c) {
      for (int64_t ph = 0; ph < height; ++ph) {
        for (int64_t pw = 0; pw < width; ++pw, ++channel) {
          const T* from = in + (image * channels + channel) * rows * columns;
          *to++ = sum_of_bin(from, columns, y, ph, x, pw) / count;
          *mapping++ = static_cast<int32_t>(channel);
        }
      }
    }
  }
}

std::tuple<at::Tensor, at::Tensor> ps_roi_align(
    const at::Tensor& input,
    const at::Tensor& rois,
    double spatial_scale,
    int64_t pooled_height,
    int64_t pooled_width,
    int64_t sampling_ratio) {
  require_regions(input, rois, pooled_height, pooled_width);
  // both are less than 2**31
  const int64_t bins = pooled_height * pooled_width;
  TORCH_CHECK(bins > 0, "pooled_height and pooled_width should be positive");
  TORCH_CHECK(
      input.size(1) % bins == 0,
      "input channels must be a multiple of pooling height * pooling width, got ", input.size(1),
      " and ", bins);
  const int64_t sizes[] = {rois.size(0), input.size(1) / bins, pooled_height, pooled_width};
  require_countable("the result", sizes, static_cast<int64_t>(sizeof(double)));
  at::Tensor out = at::empty(sizes, input.options());
  at::Tensor mapping = at::empty(sizes, input.options().dtype(at::kInt));
  if (out.numel() == 0) {
    return std::make_tuple(out, mapping);
  }
  const at::Tensor images = input.contiguous(), regions = rois.contiguous();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "torchvision_ps_roi_align", [&] {
    align<scalar_t>(
        images,
        regions,
        static_cast<scalar_t>(spatial_scale),
        sampling_ratio,
        out,
        mapping.data_ptr<int32_t>());
  });
  return std::make_tuple(out, mapping);
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, m) {
  m.def(
      "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
      " SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, m) {
  m.impl("ps_roi_align", TORCH_FN(ps_roi_align));
}

} // namespace vision
