// Regions of images, divided into bins, each sampled at the points of a grid by bilinear
// interpolation: what roi_align and ps_roi_align have in common.
#pragma once

#include "sizes.h"

#include <cmath>
#include <vector>

namespace vision {

// Points along one axis of a region, of all of its bins together.
constexpr int64_t kMostPoints = 1 << 20;

// A point between two rows (or columns), and their weights.
template <typename T>
struct Point {
  int64_t low, high;
  T low_weight, high_weight;
};

// The points along one axis of a region.
template <typename T>
struct Axis {
  // of each bin, even those outside of the image; negative where the region is turned over
  int64_t grid;
  // those inside of the image
  std::vector<Point<T>> points;
  // of each bin in `points`, and the end of the last
  std::vector<int64_t> starts;

  // ratio: points of a bin; if it is not positive, one for each row that a bin begins
  Axis(T start, T length, int64_t bins, int64_t ratio, int64_t size) {
    const T bin = length / static_cast<T>(bins);
    const T asked = ratio > 0 ? static_cast<T>(ratio) : std::ceil(bin);
    TORCH_CHECK(
        !(asked > static_cast<T>(kMostPoints / bins)),
        "a region is sampled at too many points: ", asked, " in each of ", bins, " bins");
    // NaN has no points
    grid = asked > -kMostPoints ? static_cast<int64_t>(asked) : (asked < 0 ? -kMostPoints : 0);
    starts.reserve(bins + 1);
    for (int64_t at = 0; at < bins; ++at) {
      starts.push_back(points.size());
      for (int64_t i = 0; i < grid; ++i) {
        const T offset =
            (static_cast<T>(i) + static_cast<T>(0.5)) * bin / static_cast<T>(grid);
        add(start + static_cast<T>(at) * bin + offset, size);
      }
    }
    starts.push_back(points.size());
  }

 private:
  void add(T at, int64_t size) {
    // so that NaN is outside
    if (!(at >= -1 && at <= static_cast<T>(size))) {
      return;
    }
    if (at <= 0) {
      at = 0;
    }
    int64_t low = static_cast<int64_t>(at), high = low + 1;
    if (low >= size - 1) {
      low = high = size - 1;
      at = static_cast<T>(low);
    }
    const T past = at - static_cast<T>(low);
    points.push_back({low, high, 1 - past, past});
  }
};

// The sum over a bin's points in one channel of an image.
template <typename T>
T sum_of_bin(
    const T* image, int64_t width, const Axis<T>& y, int64_t row, const Axis<T>& x, int64_t column) {
  T sum = 0;
  for (int64_t i = y.starts[row]; i < y.starts[row + 1]; ++i) {
    const Point<T>& v = y.points[i];
    const T *low = image + v.low * width, *high = image + v.high * width;
    for (int64_t j = x.starts[column]; j < x.starts[column + 1]; ++j) {
      const Point<T>& h = x.points[j];
      sum += v.low_weight * h.low_weight * low[h.low] + v.low_weight * h.high_weight * low[h.high] +
          v.high_weight * h.low_weight * high[h.low] +
          v.high_weight * h.high_weight * high[h.high];
    }
  }
  return sum;
}

// The image that a region lies in: what its first number says.
template <typename T>
int64_t image_of(T number, int64_t images) {
  TORCH_CHECK(
      number > -1 && number < static_cast<T>(images),
      "rois names image ", number, " of a batch of ", images);
  return static_cast<int64_t>(number);
}

// regions  [K, 5]: the image, x1, y1, x2, y2
inline void require_regions(
    const at::Tensor& input, const at::Tensor& rois, int64_t height, int64_t width) {
  require_tensor("input", input, 4);
  require_tensor("rois", rois, 2);
  TORCH_CHECK(rois.size(1) == 5, "rois should have 5 elements in dimension 1, got ", rois.size(1));
  require_same_type("input", input, "rois", rois);
  require_between("pooled_height", height, 0);
  require_between("pooled_width", width, 0);
  TORCH_CHECK(
      rois.size(0) == 0 || (input.size(2) > 0 && input.size(3) > 0),
      "input has no elements to sample: its sizes are ", input.sizes());
}

} // namespace vision
