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

// exp(x - shift) of a row, stored where `to` is not null; their sum.
static LTA_INLINE float exp_sum(const float* from, float* to, int64_t size, float shift) {
  Floats sum = {};
  for (int64_t i = 0; i < size; i += kLanes) {
    const Floats e = exp_below(load(from + i, size - i, kLeast) - shift);
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

// Of kLanes columns at once, of which `left` are left.
static LTA_INLINE void softmax_of_some(const float* from, float* to, int64_t left, int64_t size,
                                       int64_t apart) {
  Floats most = all(kLeast);
  for (int64_t i = 0; i < size; ++i) {
    most = larger(load(from + i * apart, left, 0), most);
  }
  Floats sum = {};
  for (int64_t i = 0; i < size; ++i) {
    const Floats e = exp_below(load(from + i * apart, left, 0) - most);
    sum += e;
    store(to + i * apart, left, e);
  }
  const Floats part = 1.0f / sum;
  for (int64_t i = 0; i < size; ++i) {
    store(to + i * apart, left, load(to + i * apart, left, 0) * part);
  }
}

static LTA_INLINE void log_softmax_of_some(const float* from, float* to, int64_t left,
                                           int64_t size, int64_t apart) {
  Floats most = all(kLeast);
  for (int64_t i = 0; i < size; ++i) {
    most = larger(load(from + i * apart, left, 0), most);
  }
  Floats sum = {};
  for (int64_t i = 0; i < size; ++i) {
    sum += exp_below(load(from + i * apart, left, 0) - most);
  }
  const Floats log = maths::log(sum);
  for (int64_t i = 0; i < size; ++i) {
    store(to + i * apart, left, load(from + i * apart, left, 0) - most - log);
  }
}

static LTA_INLINE void softmax_of_columns_in_lanes(const float* from, float* to, int64_t count,
                                                   int64_t size, int64_t apart) {
  for (int64_t i = 0; i < count; i += kLanes) {
    softmax_of_some(from + i, to + i, count - i, size, apart);
  }
}

static LTA_INLINE void log_softmax_of_columns_in_lanes(const float* from, float* to, int64_t count,
                                                       int64_t size, int64_t apart) {
  for (int64_t i = 0; i < count; i += kLanes) {
    log_softmax_of_some(from + i, to + i, count - i, size, apart);
  }
}

LTA_LEVELS(softmax_of_columns,
           (const float* from, float* to, int64_t count, int64_t size, int64_t apart),
           (from, to, count, size, apart))
LTA_LEVELS(log_softmax_of_columns,
           (const float* from, float* to, int64_t count, int64_t size, int64_t apart),
           (from, to, count, size, apart))
LTA_LEVELS(softmax, (const float* from, float* to, int64_t rows, int64_t size),
           (from, to, rows, size))
LTA_LEVELS(log_softmax, (const float* from, float* to, int64_t rows, int64_t size),
           (from, to, rows, size))

} // namespace lta
