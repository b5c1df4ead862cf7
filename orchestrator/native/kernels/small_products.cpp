// See small_products.h. For small matrices sgemm (gemm.cpp) takes three times as long to prepare as to
// compute: memory, panels, a region of the pool, for each matrix of a batch.
#include "small_products.h"

#include "levels.h"
#include "maths.h"

#include <algorithm>

namespace lta {

using namespace maths;

// Of what is left at the edges: less code counts more.
#define LTA_SMALL_LOOP _Pragma("clang loop unroll(disable) vectorize(disable)")

// Some columns of the right matrix: `stride` from one row to the next, whole vectors each.
struct Columns {
  const float* first;
  int64_t stride;
};

// So many rows at a time; where fewer are left, the last one is computed again.
template <int kRows, int kVectors>
static LTA_INLINE void multiply_columns(const SmallProduct& of, Columns right, float* to,
                                        int64_t wide) {
  for (int64_t row = 0; row < of.rows; row += kRows) {
    const float* left[kRows];
    float* target[kRows];
    Floats sums[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = std::min(row + r, of.rows - 1);
      left[r] = of.left + at * of.left_row;
      target[r] = to + at * of.columns;
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Floats{};
      }
    }
    const float* next = right.first;
    int64_t at = 0;
    for (int64_t k = 0; k < of.inner; ++k, next += right.stride, at += of.left_column) {
      Floats numbers[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        numbers[v] = load(next + v * kLanes, kLanes, 0);
      }
      for (int r = 0; r < kRows; ++r) {
        const float number = left[r][at];
        for (int v = 0; v < kVectors; ++v) {
          sums[r][v] += number * numbers[v];
        }
      }
    }
    constexpr int64_t kWhole = kVectors * kLanes;
    float part[kRows][kWhole];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        store((wide == kWhole ? target[r] : part[r]) + v * kLanes, kLanes, sums[r][v]);
      }
    }
    if (wide != kWhole) {
      LTA_SMALL_LOOP for (int r = 0; r < kRows; ++r) {
        LTA_SMALL_LOOP for (int64_t i = 0; i < wide; ++i) {
          target[r][i] = part[r][i];
        }
      }
    }
  }
}

// kTwo, kOne: rows at a time where columns are two vectors, or one; as many as registers hold. kTwo 0:
// one vector at a time.
template <int kTwo, int kOne>
static LTA_INLINE void multiply_in_lanes(const SmallProduct& of) {
  constexpr int64_t kTile = (kTwo > 0 ? 2 : 1) * kLanes;
  alignas(64) float turned[kMostInner * kTile];
  for (int64_t from = 0; from < of.columns; from += kTile) {
    const int64_t wide = std::min(kTile, of.columns - from);
    const int64_t whole = wide > kLanes ? kTile : kLanes;
    const float* const right = of.right + from * of.right_column;
    Columns columns{right, of.right_row};
    if (of.right_column != 1 || wide < whole) {
      int64_t places[kTile]; // behind the last column it again: what it gives is not stored
      LTA_SMALL_LOOP for (int64_t i = 0; i < whole; ++i) {
        places[i] = std::min(i, wide - 1) * of.right_column;
      }
      float* to = turned;
      LTA_SMALL_LOOP for (int64_t k = 0; k < of.inner; ++k) {
        const float* const row = right + k * of.right_row;
        LTA_SMALL_LOOP for (int64_t i = 0; i < whole; ++i) {
          *to++ = row[places[i]];
        }
      }
      columns = {turned, whole};
    }
    if constexpr (kTwo > 0) {
      if (wide > kLanes) {
        multiply_columns<kTwo, 2>(of, columns, of.to + from, wide);
        continue;
      }
    }
    multiply_columns<kOne, 1>(of, columns, of.to + from, wide);
  }
}

#if defined(__x86_64__)
static LTA_WIDE void multiply_wide(const SmallProduct& of) { multiply_in_lanes<4, 6>(of); }
static void multiply_narrow(const SmallProduct& of) { multiply_in_lanes<0, 2>(of); }
void multiply_small(const SmallProduct& of) {
  has_wide_lanes() ? multiply_wide(of) : multiply_narrow(of);
}
#else
void multiply_small(const SmallProduct& of) { multiply_in_lanes<4, 6>(of); }
#endif

} // namespace lta
