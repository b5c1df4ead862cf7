#include "vectors.h"

#include "levels.h"
#include "maths.h"

#include <algorithm>

namespace lta {

using namespace maths;

// Columns of a matrix that are computed with at once.
constexpr int64_t kTogether = 4;
// So many numbers that lie apart are copied at once.
constexpr int64_t kPart = 1024;

// So many columns of `count` numbers, which lie side by side.
struct Columns {
  const float* first;
  int64_t apart, columns, count;
};

// The products of kColumns columns and x. Sums of every kParts-th vector of lanes are apart: each
// waits for fewer.
template <int kColumns, int kParts>
static LTA_INLINE void multiply_some(const float* columns, int64_t apart, const float* x,
                                     int64_t count, float* to) {
  Floats sums[kColumns][kParts] = {};
  int64_t i = 0;
  for (; i + kParts * kLanes <= count; i += kParts * kLanes) {
    for (int p = 0; p < kParts; ++p) {
      const Floats of = load(x + i + p * kLanes, kLanes, 0);
      for (int c = 0; c < kColumns; ++c) {
        sums[c][p] += load(columns + c * apart + i + p * kLanes, kLanes, 0) * of;
      }
    }
  }
  for (; i < count; i += kLanes) {
    const Floats of = load(x + i, count - i, 0);
    for (int c = 0; c < kColumns; ++c) {
      sums[c][0] += load(columns + c * apart + i, count - i, 0) * of;
    }
  }
  for (int c = 0; c < kColumns; ++c) {
    for (int p = 1; p < kParts; ++p) {
      sums[c][0] += sums[c][p];
    }
    to[c] = sum_of(sums[c][0]);
  }
}

// y[j] = alpha x column(j) + beta y[j].
static LTA_INLINE void multiply_columns_in_lanes(const Columns& of, float alpha, const float* x,
                                                 float beta, float* y, int64_t incy) {
  for (int64_t j = 0; j < of.columns;) {
    float products[kTogether];
    const float* const column = of.first + j * of.apart;
    const int64_t now = of.columns - j >= kTogether ? kTogether : 1;
    if (now == kTogether) {
      multiply_some<kTogether, 1>(column, of.apart, x, of.count, products);
    } else {
      multiply_some<1, kTogether>(column, of.apart, x, of.count, products);
    }
    for (int64_t end = j + now, c = 0; j < end; ++j, ++c) {
      float& to = y[j * incy];
      to = beta == 0 ? alpha * products[c] : beta * to + alpha * products[c];
    }
  }
}

// y += the sum of kColumns columns, each times its factor.
template <int kColumns>
static LTA_INLINE void add_some(const float* columns, int64_t apart, const float* factors, float* y,
                                int64_t count) {
  const auto some = [=](int64_t i, int64_t left) LTA_ALWAYS {
    Floats sum = load(y + i, left, 0);
    for (int c = 0; c < kColumns; ++c) {
      sum += load(columns + c * apart + i, left, 0) * factors[c];
    }
    store(y + i, left, sum);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    some(i, kLanes);
  }
  if (i < count) {
    some(i, count - i);
  }
}

// y += alpha times the sum of column(j) x[j].
static LTA_INLINE void add_columns_in_lanes(const Columns& of, float alpha, const float* x,
                                            int64_t incx, float* y) {
  for (int64_t j = 0; j < of.columns;) {
    float factors[kTogether];
    const float* const column = of.first + j * of.apart;
    const int64_t now = of.columns - j >= kTogether ? kTogether : 1;
    for (int64_t c = 0; c < now; ++c) {
      factors[c] = alpha * x[(j + c) * incx];
    }
    if (now == kTogether) {
      add_some<kTogether>(column, of.apart, factors, y, of.count);
    } else {
      add_some<1>(column, of.apart, factors, y, of.count);
    }
    j += now;
  }
}

LTA_LEVELS(multiply_columns,
           (const Columns& of, float alpha, const float* x, float beta, float* y, int64_t incy),
           (of, alpha, x, beta, y, incy))
LTA_LEVELS(add_columns,
           (const Columns& of, float alpha, const float* x, int64_t incx, float* y),
           (of, alpha, x, incx, y))

// Numbers that lie apart, side by side: the copy, or where they are.
static const float* gather(const float* from, int64_t stride, int64_t count, float* copy) {
  if (stride == 1) {
    return from;
  }
  for (int64_t i = 0; i < count; ++i) {
    copy[i] = from[i * stride];
  }
  return copy;
}

// A's columns are cut where the vector that lies along them has gaps: x of a transposed A, else y.
void sgemv(bool transpose, int64_t m, int64_t n, float alpha, const float* a, int64_t lda,
           const float* x, int64_t incx, float beta, float* y, int64_t incy) {
  float copy[kPart];
  const int64_t most = (transpose ? incx : incy) == 1 ? m : kPart;
  int64_t from = 0;
  do { // once where A has no rows: y is beta y then
    const int64_t count = std::min(most, m - from);
    const Columns columns{a + from, lda, n, count};
    if (transpose) {
      const float* const some = gather(x + from * incx, incx, count, copy);
      multiply_columns(columns, alpha, some, from == 0 ? beta : 1, y, incy);
    } else {
      float* const there = y + from * incy;
      float* const some = incy == 1 ? there : copy;
      for (int64_t i = 0; i < count; ++i) {
        some[i] = beta == 0 ? 0 : beta * there[i * incy];
      }
      add_columns(columns, alpha, x, incx, some);
      for (int64_t i = 0; some == copy && i < count; ++i) {
        there[i * incy] = some[i];
      }
    }
    from += count;
  } while (from < m);
}

float sdot(int64_t count, const float* x, int64_t incx, const float* y, int64_t incy) {
  float copies[2][kPart];
  const int64_t most = incx == 1 && incy == 1 ? count : kPart;
  float sum = 0;
  for (int64_t from = 0; from < count; from += most) {
    const int64_t now = std::min(most, count - from);
    const float* const one = gather(x + from * incx, incx, now, copies[0]);
    const float* const other = gather(y + from * incy, incy, now, copies[1]);
    multiply_columns({one, 0, 1, now}, 1, other, 1, &sum, 1);
  }
  return sum;
}

} // namespace lta
