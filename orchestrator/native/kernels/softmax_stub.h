// aten/src/ATen/native/cpu/SoftMaxKernel.cpp reads this first: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/core/Tensor.h>
#include <ATen/native/cpu/SoftmaxKernel.h>

#include "faster.h"
#include "rows.h"

namespace lta {

using RowsOfFloats = void (*)(const float* from, float* to, int64_t rows, int64_t size);

template <RowsOfFloats run_rows, at::native::forward_fn kernel>
struct FasterRows {
  static void run(const at::Tensor& result, const at::Tensor& self) {
    if (self.scalar_type() == at::kFloat && result.scalar_type() == at::kFloat &&
        self.is_contiguous() && result.is_contiguous() && self.dim() > 0 && self.numel() > 0) {
      const int64_t size = self.sizes().back();
      run_rows(self.data_ptr<float>(), result.data_ptr<float>(), self.numel() / size, size);
    } else {
      kernel(result, self);
    }
  }
  static constexpr auto value = &run;
};

template <at::native::forward_fn kernel>
struct Faster<struct at::native::softmax_lastdim_kernel, kernel> : FasterRows<&softmax, kernel> {};
template <at::native::forward_fn kernel>
struct Faster<struct at::native::log_softmax_lastdim_kernel, kernel>
    : FasterRows<&log_softmax, kernel> {};

} // namespace lta
