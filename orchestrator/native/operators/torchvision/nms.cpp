// `torchvision::nms`: of boxes that overlap, the one with the highest score.
//
// Boxes are kept from the highest score down; one is left out if its intersection with a kept one,
// over their union, is more than the threshold. Equal scores stay in order, and NaN is above all.
#include "sizes.h"

#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vision {
namespace {

// From the highest score down.
template <typename T>
std::vector<int64_t> ordered(const T* scores, int64_t count) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [scores](int64_t a, int64_t b) {
    const T first = scores[a], second = scores[b];
    return first > second || (std::isnan(first) && !std::isnan(second));
  });
  return order;
}

template <typename T>
std::vector<int64_t> kept(const T* boxes, const T* scores, int64_t count, double threshold) {
  const std::vector<int64_t> order = ordered(scores, count);
  std::vector<T> x1(count), y1(count), x2(count), y2(count), areas(count);
  for (int64_t i = 0; i < count; ++i) {
    const T* box = boxes + 4 * order[i];
    x1[i] = box[0], y1[i] = box[1], x2[i] = box[2], y2[i] = box[3];
    areas[i] = (x2[i] - x1[i]) * (y2[i] - y1[i]);
  }
  std::vector<char> suppressed(count, 0);
  std::vector<int64_t> found;
  for (int64_t i = 0; i < count; ++i) {
    if (suppressed[i]) {
      continue;
    }
    found.push_back(order[i]);
    const T left = x1[i], top = y1[i], right = x2[i], bottom = y2[i], area = areas[i];
    for (int64_t j = i + 1; j < count; ++j) {
      // std::max and std::min give their first argument where one is NaN
      const T width = std::max(T(0), std::min(right, x2[j]) - std::max(left, x1[j]));
      const T height = std::max(T(0), std::min(bottom, y2[j]) - std::max(top, y1[j]));
      const T both = width * height;
      suppressed[j] |= static_cast<double>(both / (area + areas[j] - both)) > threshold;
    }
  }
  return found;
}

at::Tensor nms(const at::Tensor& dets, const at::Tensor& scores, double iou_threshold) {
  require_tensor("boxes", dets, 2);
  require_tensor("scores", scores, 1);
  TORCH_CHECK(
      dets.size(1) == 4, "boxes should have 4 elements in dimension 1, got ", dets.size(1));
  TORCH_CHECK(
      dets.size(0) == scores.size(0),
      "boxes and scores should have same number of elements in dimension 0, got ",
      dets.size(0), " and ", scores.size(0));
  require_same_type("dets", dets, "scores", scores);
  const at::Tensor boxes = dets.contiguous(), values = scores.contiguous();
  std::vector<int64_t> found;
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "torchvision_nms", [&] {
    found = kept(
        boxes.data_ptr<scalar_t>(), values.data_ptr<scalar_t>(), boxes.size(0), iou_threshold);
  });
  at::Tensor out =
      at::empty({static_cast<int64_t>(found.size())}, dets.options().dtype(at::kLong));
  std::copy(found.begin(), found.end(), out.data_ptr<int64_t>());
  return out;
}

} // namespace

TORCH_LIBRARY_FRAGMENT(torchvision, m) {
  m.def("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor");
}

TORCH_LIBRARY_IMPL(torchvision, CPU, m) {
  m.impl("nms", TORCH_FN(nms));
}

} // namespace vision
