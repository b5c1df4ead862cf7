// Products of a matrix of floats and a vector, and of two vectors.
#pragma once

#include <cstdint>

namespace lta {

// y = alpha op(A) x + beta y as BLAS's sgemv has it: A is m x n and lies column by column, op
// transposes it or not; y is not read where beta is 0. No stride is negative.
void sgemv(bool transpose, int64_t m, int64_t n, float alpha, const float* a, int64_t lda,
           const float* x, int64_t incx, float beta, float* y, int64_t incy);

// The sum of x[i * incx] y[i * incy] for `count` numbers.
float sdot(int64_t count, const float* x, int64_t incx, const float* y, int64_t incy);

} // namespace lta
