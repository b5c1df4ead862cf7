// Products of float matrices for PyTorch's BLAS interface, through XNNPACK's micro-kernels.
#pragma once

#include <cstdint>

namespace lta {

// C = alpha op(A) op(B) + beta C as BLAS's sgemm has it: matrices lie column by column, A is m x k
// after op, B k x n; C is not read where beta is 0. False where it is left to the caller.
bool sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
           const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
           int64_t ldc);

} // namespace lta
