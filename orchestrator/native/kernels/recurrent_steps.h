// What a step of a recurrent layer computes: products of rows with packed weights, and cells.
#pragma once

#include <cstdint>

namespace lta {

// Columns of weights that lie side by side for each number of a row.
constexpr int64_t kTile = 32;

inline int64_t padded(int64_t columns) { return (columns + kTile - 1) / kTile * kTile; }

// Floats that weights take when they are packed.
inline int64_t packed_size(int64_t columns, int64_t depth) { return padded(columns) * depth; }

// Weights [columns, depth] as RowProduct has them; the columns that fill a tile are zero.
void pack_tiles(const float* weights, int64_t columns, int64_t depth, float* to);

// to[r] = start[r] + from[r] * weights, a row of `depth` numbers becoming one of whole tiles.
// `start` and `to` may be the same memory; a stride of 0 gives each row the same start.
struct RowProduct {
  const float* from;
  int64_t from_stride;
  const float* weights;
  const float* start;
  int64_t start_stride;
  float* to;
  int64_t to_stride;
  int64_t rows, depth;
};

// Tiles [first, last).
void multiply_tiles(const RowProduct& of, int64_t first, int64_t last);

// gates: the sums of i, f, g and o, `size` numbers each. `cell` becomes the next one.
void lstm_step(const float* gates, float* cell, float* hidden, int64_t size);

// The sums of r, z and n, of the input and of `before`, apart. `before` and `hidden` may not overlap.
void gru_step(const float* of_input, const float* of_hidden, const float* before, float* hidden,
              int64_t size);

} // namespace lta
