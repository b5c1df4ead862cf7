// Bilinear interpolation of images of floats, a row of results at a time.
#pragma once

#include <cstdint>

namespace lta {

// Where each result of a dimension comes from: two places of the image, and their weights. The
// arrays have room for a whole vector of lanes behind the last result.
struct Taps {
  const int32_t* low;
  const int32_t* high;
  const float* of_low;
  const float* of_high;
};

// Images of `in_height` rows; channels: numbers side by side that share a place. 1: `across` counts
// numbers, `in_row` and `out_row` of them in a row; else points, each of so many numbers.
struct Bilinear {
  const float* from;
  float* to;
  int64_t in_height, in_row, out_height, out_row, channels;
  Taps down, across;
};

// Result rows begin to end, counted through all images. rows: room for two of them.
void interpolate_rows(const Bilinear& of, int64_t begin, int64_t end, float* rows);

} // namespace lta
