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
    Floats sums[2] = {};
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      for (int64_t one = 0; one < 2; ++one) {
        const Floats x = load(from + i + one * kLanes) - shift;
        sums[one] += power == 1 ? x : x * x;
      }
    }
    for (; i < count; i += kLanes) {
      const Floats x = load_part(from + i, std::min(count - i, kLanes), shift) - shift;
      sums[0] += power == 1 ? x : x * x;
    }
    sum += sum_of(sums[0] + sums[1]);
    from += count;
    size -= count;
  }
  return sum;
}

static LTA_INLINE void layer_norm_in_lanes(const float* from, float* to, int64_t rows, int64_t size,
                                           float epsilon, const float* scale, const float* shift,
                                           float* mean, float* deviation) {
  for (int64_t row = 0; row < rows; ++row, from += size, to += size) {
    const float middle = float(sum_of_row<1>(from, size, 0) / double(size));
    const float variance = float(sum_of_row<2>(from, size, middle) / double(size));
    const float factor = 1.0f / std::sqrt(variance + epsilon);
    int64_t i = 0;
    const auto normalise = [&](Floats x, int64_t count) LTA_ALWAYS {
      x = (x - middle) * factor;
      if (scale != nullptr) {
        x = x * load_part(scale + i, count, 1);
      }
      return shift == nullptr ? x : x + load_part(shift + i, count, 0);
    };
    for (; i + kLanes <= size; i += kLanes) {
      store(to + i, normalise(load(from + i), kLanes));
    }
    if (i < size) {
      store_part(to + i, normalise(load_part(from + i, size - i, 0), size - i), size - i);
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
