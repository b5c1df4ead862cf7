#define LTA_SIXTEEN_LANES
#include "levels.h"
#include "maths.h"
#include "rows.h"

#include <cmath>

namespace lta {

using namespace maths;

constexpr float kLeast = -__builtin_inff();

// A NaN among the numbers is in their sum, and so in every result, whatever is the largest.
static LTA_INLINE float largest(const float* from, int64_t size) {
  Floats lanes = all(kLeast);
  for (int64_t i = 0; i < size; i += kLanes) {
    lanes = larger(load(from + i, size - i, kLeast), lanes);
  }
  return largest_of(lanes);
}

// exp(x - shift) of a row, zero where that is below 1.7e-38, stored where `to` is not null; their sum.
static LTA_INLINE float exp_sum(const float* from, float* to, int64_t size, float shift) {
  Floats sum = {};
  for (int64_t i = 0; i < size; i += kLanes) {
    const Floats x = load(from + i, size - i, kLeast) - shift;
    Floats e = exp_of_small(x);
    e = x < all(-87.0f) ? Floats{} : e; // NaN stays
    sum += e;
    if (to != nullptr) {
      store(to + i, size - i, e);
    }
  }
  return sum_of(sum);
}

static LTA_INLINE void softmax_in_lanes(const float* from, float* to, int64_t rows, int64_t size) {
  for (; rows > 0; --rows, from += size, to += size) {
    const float part = 1.0f / exp_sum(from, to, size, largest(from, size));
    map([part](Floats x) LTA_ALWAYS { return x * part; }, to, to, size);
  }
}

static LTA_INLINE void log_softmax_in_lanes(const float* from, float* to, int64_t rows,
                                            int64_t size) {
  for (; rows > 0; --rows, from += size, to += size) {
    const float most = largest(from, size);
    const float log = std::log(exp_sum(from, nullptr, size, most));
    map([most, log](Floats x) LTA_ALWAYS { return x - most - log; }, from, to, size);
  }
}

LTA_LEVELS(softmax, (const float* from, float* to, int64_t rows, int64_t size),
           (from, to, rows, size))
LTA_LEVELS(log_softmax, (const float* from, float* to, int64_t rows, int64_t size),
           (from, to, rows, size))

} // namespace lta
