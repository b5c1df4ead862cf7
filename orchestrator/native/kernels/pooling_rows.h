// Pooling of images whose channels are last, a row of results at a time.
#pragma once

#include <cstdint>

namespace lta {

// Where a result's numbers come from, along one dimension; `whole` counts those in the padding too.
struct Window {
  int64_t first, count, whole;
};

struct PooledRow {
  const float* from; // the image
  float* to;
  int64_t channels, in_width, out_width;
  Window down;
  const Window* across; // of each result
  int64_t step_down, step_across;
};

// A NaN is the largest of all, as in ATen's max_pool2d.
void largest_in_windows(const PooledRow& row);

// divisor: of the sums; 0: how many numbers there are, with those in the padding or without
void means_of_windows(const PooledRow& row, int64_t divisor, bool with_padding);

} // namespace lta
