#include "recurrent_steps.h"

#include "levels.h"
#include "maths.h"

#include <algorithm>

namespace lta {

using namespace maths;

void pack_tiles(const float* weights, int64_t columns, int64_t depth, float* to) {
  for (int64_t tile = 0; tile < columns; tile += kTile) {
    const int64_t wide = std::min(kTile, columns - tile);
    for (int64_t k = 0; k < depth; ++k, to += kTile) {
      for (int64_t i = 0; i < kTile; ++i) {
        to[i] = i < wide ? weights[(tile + i) * depth + k] : 0;
      }
    }
  }
}

constexpr int kVectors = kTile / kLanes;

// So many rows' part of a tile. `parts`: sums of every so manyth number, so that each waits for
// fewer; rows times parts times kVectors sums have to fit into a processor's registers.
template <int kRows, int kParts>
static LTA_INLINE void multiply_tile(const RowProduct& of, int64_t row, int64_t tile) {
  const float* from = of.from + row * of.from_stride;
  const float* weights = of.weights + tile * kTile * of.depth;
  Floats sums[kRows][kParts][kVectors];
  for (int r = 0; r < kRows; ++r) {
    const float* start = of.start + (row + r) * of.start_stride + tile * kTile;
    for (int v = 0; v < kVectors; ++v) {
      sums[r][0][v] = load(start + v * kLanes, kLanes, 0);
      for (int p = 1; p < kParts; ++p) {
        sums[r][p][v] = Floats{};
      }
    }
  }
  int64_t k = 0;
  for (; k + kParts <= of.depth; k += kParts) {
    for (int p = 0; p < kParts; ++p, weights += kTile) {
      for (int r = 0; r < kRows; ++r) {
        const float number = from[r * of.from_stride + k + p];
        for (int v = 0; v < kVectors; ++v) {
          sums[r][p][v] += number * load(weights + v * kLanes, kLanes, 0);
        }
      }
    }
  }
  for (; k < of.depth; ++k, weights += kTile) {
    for (int r = 0; r < kRows; ++r) {
      const float number = from[r * of.from_stride + k];
      for (int v = 0; v < kVectors; ++v) {
        sums[r][0][v] += number * load(weights + v * kLanes, kLanes, 0);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* to = of.to + (row + r) * of.to_stride + tile * kTile;
    for (int v = 0; v < kVectors; ++v) {
      for (int p = 1; p < kParts; ++p) {
        sums[r][0][v] += sums[r][p][v];
      }
      store(to + v * kLanes, kLanes, sums[r][0][v]);
    }
  }
}

// A tile of weights serves all rows while it is near.
template <int kRows, int kParts>
static LTA_INLINE void multiply_in_lanes(const RowProduct& of, int64_t first, int64_t last) {
  for (int64_t tile = first; tile < last; ++tile) {
    int64_t row = 0;
    for (; row + kRows <= of.rows; row += kRows) {
      multiply_tile<kRows, kRows == 1 ? kParts : 1>(of, row, tile);
    }
    for (; row < of.rows; ++row) {
      multiply_tile<1, kParts>(of, row, tile);
    }
  }
}

#if defined(__x86_64__)
static LTA_WIDE void multiply_wide(const RowProduct& of, int64_t first, int64_t last) {
  multiply_in_lanes<3, 2>(of, first, last);
}
static void multiply_narrow(const RowProduct& of, int64_t first, int64_t last) {
  multiply_in_lanes<1, 1>(of, first, last);
}
void multiply_tiles(const RowProduct& of, int64_t first, int64_t last) {
  has_wide_lanes() ? multiply_wide(of, first, last) : multiply_narrow(of, first, last);
}
#elif defined(__aarch64__)
void multiply_tiles(const RowProduct& of, int64_t first, int64_t last) {
  multiply_in_lanes<3, 2>(of, first, last);
}
#else
void multiply_tiles(const RowProduct& of, int64_t first, int64_t last) {
  multiply_in_lanes<1, 1>(of, first, last);
}
#endif

// A function that is inlined into a loop's body is there once.
#define LTA_ONCE _Pragma("clang loop unroll(disable)")

// Which of an LSTM's gates are shares: f, i, o.
constexpr int64_t kShares[] = {1, 0, 3};

static LTA_INLINE void lstm_step_in_lanes(const float* gates, float* cell, float* hidden,
                                          int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    Floats share[3]; // of what was, of what is new, of the cell that is seen
    LTA_ONCE for (int64_t gate = 0; gate < 3; ++gate) {
      share[gate] = maths::sigmoid(load(gates + kShares[gate] * size + i, left, 0));
    }
    const Floats fresh = maths::tanh(load(gates + 2 * size + i, left, 0));
    const Floats next = share[0] * load(cell + i, left, 0) + share[1] * fresh;
    store(cell + i, left, next);
    store(hidden + i, left, share[2] * maths::tanh(next));
  }
}

static LTA_INLINE void gru_step_in_lanes(const float* of_input, const float* of_hidden,
                                         const float* before, float* hidden, int64_t size) {
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = size - i;
    Floats share[2]; // of the hidden state's part of what is new, of what was
    LTA_ONCE for (int64_t gate = 0; gate < 2; ++gate) {
      share[gate] = maths::sigmoid(load(of_input + gate * size + i, left, 0) +
                                   load(of_hidden + gate * size + i, left, 0));
    }
    const Floats fresh = maths::tanh(load(of_input + 2 * size + i, left, 0) +
                                     share[0] * load(of_hidden + 2 * size + i, left, 0));
    store(hidden + i, left, (load(before + i, left, 0) - fresh) * share[1] + fresh);
  }
}

LTA_LEVELS(lstm_step, (const float* gates, float* cell, float* hidden, int64_t size),
           (gates, cell, hidden, size))
LTA_LEVELS(gru_step,
           (const float* of_input, const float* of_hidden, const float* before, float* hidden,
            int64_t size),
           (of_input, of_hidden, before, hidden, size))

} // namespace lta
