// aten/src/ATen/native/BlasKernel.cpp reads this before its own text: what it has for float matrices
// and vectors without a BLAS is specialised by ours.
//
// Meaning: the unit defines the templates, and instantiates them; a specialisation that it has read
// before takes the instance's place. Its functions for other dtypes stay as they are.
#pragma once

#include <ATen/native/DispatchStub.h>

#include "vectors.h"

// PyTorch 2 reads through pointers to const.
#ifdef ALSO_REGISTER_AVX512_DISPATCH
#define LTA_READ const
#else
#define LTA_READ
#endif

namespace at {
namespace native {

template <typename scalar_t>
void gemv(char trans, int64_t m, int64_t n, scalar_t alpha, LTA_READ scalar_t* a, int64_t lda,
          LTA_READ scalar_t* x, int64_t incx, scalar_t beta, scalar_t* y, int64_t incy);

template <>
void gemv<float>(char trans, int64_t m, int64_t n, float alpha, LTA_READ float* a, int64_t lda,
                 LTA_READ float* x, int64_t incx, float beta, float* y, int64_t incy) {
  lta::sgemv(trans == 'T' || trans == 't', m, n, alpha, a, lda, x, incx, beta, y, incy);
}

template <typename scalar_t>
scalar_t dot_impl_floating(int64_t n, scalar_t* x, int64_t incx, scalar_t* y, int64_t incy);

template <>
inline float dot_impl_floating<float>(int64_t n, float* x, int64_t incx, float* y, int64_t incy) {
  return lta::sdot(n, x, incx, y, incy);
}

} // namespace native
} // namespace at
