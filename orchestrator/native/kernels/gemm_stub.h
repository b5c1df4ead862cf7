// Products of float matrices by lta::sgemm where PyTorch's fallback for a missing BLAS would run.
//
// Meaning: at::native::cpublas::gemm ends in `gemm_stub`, whose kernel for the CPU is
// cpublas_gemm_impl. Only aten/src/ATen/native/cpu/BlasKernel.cpp is compiled with `-include` of this
// file: what it registers is asked first whether lta::sgemm does it.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/Dispatch.h>
#include <ATen/native/CPUBlas.h>

#include "faster.h"
#include "gemm.h"

namespace lta {

template <at::native::cpublas::gemm_fn kernel>
struct Faster<decltype(at::native::cpublas::gemm_stub), kernel> {
  static void run(at::ScalarType type, at::native::TransposeType transpose_a,
                  at::native::TransposeType transpose_b, int64_t m, int64_t n, int64_t k,
                  const at::Scalar& alpha, const void* a, int64_t lda, const void* b, int64_t ldb,
                  const at::Scalar& beta, void* c, int64_t ldc) {
    using at::native::TransposeType;
    const bool done = type == at::kFloat &&
        sgemm(transpose_a != TransposeType::NoTranspose, transpose_b != TransposeType::NoTranspose,
              m, n, k, alpha.to<float>(), static_cast<const float*>(a), lda,
              static_cast<const float*>(b), ldb, beta.to<float>(), static_cast<float*>(c), ldc);
    if (!done) {
      kernel(type, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
  }
  static constexpr auto value = &run;
};

} // namespace lta
