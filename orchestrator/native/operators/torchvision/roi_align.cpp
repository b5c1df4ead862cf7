// `torchvision::roi_align`: regions of feature maps, each as the means of a grid of bins
// (He et al., Mask R-CNN, 2017, section 3).
#include "regions.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

namespace vision {
namespace {

template <typename T>
void align(
    const at::Tensor& input,
    const at::Tensor& rois,
    T scale,
    int64_t ratio,
    bool aligned,
    const at::Tensor& out) {
  const int64_t channels = input.size(1), rows = input.size(2), columns = input.size(3);
  const int64_t height = out.size(2), width = out.size(3);
  const T* in = input.data_ptr<T>();
  T* to = out.data_ptr<T>();
  const T offset = aligned ? T(0.5) : T(0);
  for (int64_t k = 0; k < rois.size(0); ++k) {
    const T* region = rois.data_ptr<T>() + 5 * k;
    const int64_t image = image_of(region[0], input.size(0));
    const T left = region[1] * scale - offset, top = region[2] * scale - offset;
    T across = region[3] * scale - offset - left, down = region[4] * scale - offset - top;
    if (!aligned) {
      across = std::max(across, T(1));
      down = std::max(down, T(1));
    }
    const Axis<T> y(top, down, height, ratio, rows), x(left, across, width, ratio, columns);
    const T count = static_cast<T>(std::max<int64_t>(y.grid * x.grid, 1));
    for (int64_t c = 0; c < channels; ++c) {
      const T* channel = in + (image * channels + c) * rows * columns;
      for (int64_t ph = 0; ph < height; ++ph) {
        for (int64_t pw = 0; pw < width; ++pw) {
          *to++ = sum_of_bin(channel, columns, y, ph, x, pw) / count;
        }
      }
    }
  }
}

at::Tensor roi_align(
    const at::Tensor& input,
    const at::Tensor& rois,
    double spatial_scale,
    int64_t pooled_height,
    int64_t pooled_width,
    int64_t sampling_ratio,
    bool aligned) {
  require_regions(input, rois, pooled_height, pooled_width);
  const int64_t sizes[] = {rois.size(0), input.size(1), pooled_height, pooled_width};
  require_countable("the result", sizes, static_cast<int64_t>(input.element_size()));
  at::Tensor out = at::empty(sizes, input.options());
  if (out.numel() == 0) {
    return out;
  }
  const at::Tensor images = input.contiguous(), regions = rois.contiguous();
  AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), "torchvision_roi_align", [&] {
    align<scalar_t>(
        images, regions, static_cast<scalar_t>(spatial_scale), sampling_ratio, aligned, out);
  });
  return out;
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, m) {
  m.def(
      "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height,"
      " SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, m) {
  m.impl("roi_align", TORCH_FN(roi_align));
}

} // namespace vision
