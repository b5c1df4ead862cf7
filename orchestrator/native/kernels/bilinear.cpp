#include "bilinear.h"

#include "levels.h"
#include "maths.h"

#include <cstring>
#include <utility>

namespace lta {

using namespace maths;

static LTA_INLINE Floats gathered(const float* from, const int32_t* places) {
  Floats lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    lanes[lane] = from[places[lane]];
  }
  return lanes;
}

// A row of the image, as wide as a row of results.
static LTA_INLINE void widen(const float* row, float* to, const Bilinear& of) {
  const Taps& taps = of.across;
  if (of.channels == 1) {
    for (int64_t i = 0; i < of.out_row; i += kLanes) {
      Floats low, high;
      std::memcpy(&low, taps.of_low + i, sizeof low);
      std::memcpy(&high, taps.of_high + i, sizeof high);
      store(to + i, of.out_row - i,
            low * gathered(row, taps.low + i) + high * gathered(row, taps.high + i));
    }
    return;
  }
  for (int64_t i = 0; i * of.channels < of.out_row; ++i) {
    const float* const low = row + taps.low[i] * of.channels;
    const float* const high = row + taps.high[i] * of.channels;
    for (int64_t c = 0; c < of.channels; c += kLanes) {
      const int64_t left = of.channels - c;
      store(to + i * of.channels + c, left,
            taps.of_low[i] * load(low + c, left, 0) + taps.of_high[i] * load(high + c, left, 0));
    }
  }
}

// Rows of results that follow each other come from the same rows of the image, or from the next:
// each is widened once. Products and sums are in PyTorch's order.
static LTA_INLINE void interpolate_rows_in_lanes(const Bilinear& of, int64_t begin, int64_t end,
                                                 float* rows) {
  float* low = rows;
  float* high = rows + of.out_row;
  const float* in_low = nullptr;
  const float* in_high = nullptr;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t y = i % of.out_height;
    const float* const image = of.from + i / of.out_height * of.in_height * of.in_row;
    const float* const first = image + of.down.low[y] * of.in_row;
    const float* const second = image + of.down.high[y] * of.in_row;
    if (first == in_high) {
      std::swap(low, high);
      std::swap(in_low, in_high);
    }
    if (first != in_low) {
      widen(first, low, of);
      in_low = first;
    }
    if (second != in_high && second != first) {
      widen(second, high, of);
      in_high = second;
    }
    const float* const other = second == first ? low : high;
    float* const to = of.to + i * of.out_row;
    for (int64_t x = 0; x < of.out_row; x += kLanes) {
      const int64_t left = of.out_row - x;
      store(to + x, left,
            of.down.of_low[y] * load(low + x, left, 0) + of.down.of_high[y] * load(other + x, left, 0));
    }
  }
}

LTA_LEVELS(interpolate_rows, (const Bilinear& of, int64_t begin, int64_t end, float* rows),
           (of, begin, end, rows))

} // namespace lta
