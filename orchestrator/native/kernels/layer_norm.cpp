#define LTA_SIXTEEN_LANES
#include "levels.h"
#include "maths.h"
#include "rows.h"

#include <algorithm>
#include <cmath>

namespace lta {

using namespace maths;

// Of so many numbers the sum is made in floats; the sums' sum is a double, so that long rows lose no
// more than short ones.
constexpr int64_t kBlock = 1024;

// The sum of (x - shift)^power of a row, power 1 or 2.
template <int power>
static LTA_INLINE double sum_of_row(const float* from, int64_t size, float shift) {
  double sum = 0;
  while (size > 0) {
    const int64_t count = std::min(size, kBlock);
    Floats some = {};
    for (int64_t i = 0; i < count; i += kLanes) {
      const Floats x = load(from + i, count - i, shift) - shift;
      some += power == 1 ? x : x * x;
    }
    sum += sum_of(some);
    from += count;
    size -= count;
  }
  return sum;
}

static LTA_INLINE void layer_norm_in_lanes(const float* from, float* to, int64_t rows, int64_t size,
                                           float epsilon, const float* scale, const float* shift,
                                           float* mean, float* deviation) {
  for (int64_t row = 0; row < rows; ++row, from += size, to += size) {
    // The first number is near the mean where the mean is large: the others' distances are small.
    const float first = size > 0 ? from[0] : 0;
    const float middle = float(first + sum_of_row<1>(from, size, first) / double(size));
    const float variance = float(sum_of_row<2>(from, size, middle) / double(size));
    const float factor = 1.0f / std::sqrt(variance + epsilon);
    for (int64_t i = 0; i < size; i += kLanes) {
      const int64_t left = size - i;
      Floats x = (load(from + i, left, 0) - middle) * factor;
      x = scale == nullptr ? x : x * load(scale + i, left, 0);
      store(to + i, left, shift == nullptr ? x : x + load(shift + i, left, 0));
    }
    if (mean != nullptr) {
      mean[row] = middle;
    }
    if (deviation != nullptr) {
      deviation[row] = factor;
    }
  }
}

LTA_LEVELS(layer_norm,
           (const float* from, float* to, int64_t rows, int64_t size, float epsilon,
            const float* scale, const float* shift, float* mean, float* deviation),
           (from, to, rows, size, epsilon, scale, shift, mean, deviation))

} // namespace lta
