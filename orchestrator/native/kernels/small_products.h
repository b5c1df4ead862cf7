// Products of small matrices, as they lie.
#pragma once

#include <cstdint>

namespace lta {

// The longest sum: so much of the right matrix is turned at once, on the stack.
constexpr int64_t kMostInner = 256;

// to = left * right; `to` lies row by row, of the others each number is `row` and `column` from the
// next one.
struct SmallProduct {
  int64_t rows, inner, columns;
  const float* left;
  int64_t left_row, left_column;
  const float* right;
  int64_t right_row, right_column;
  float* to;
};

// Each number is a sum of products in their order, fused with AVX2 and on ARM: as XNNPACK's kernels
// make it (gemm.cpp), to the last bit.
void multiply_small(const SmallProduct& of);

} // namespace lta
