// aten/src/ATen/native/cpu/SoftMaxKernel.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/core/Tensor.h>
#include <ATen/native/cpu/SoftmaxKernel.h>

#include "faster.h"
#include "rows.h"

namespace lta {

template <void (*run_rows)(const float* from, float* to, int64_t rows, int64_t size)>
void run_on_rows(const at::Tensor& result, const at::Tensor& self) {
  // as the callers have made both (SoftMax.cpp)
  TORCH_CHECK(self.is_contiguous() && result.is_contiguous() && result.numel() == self.numel());
  const int64_t size = self.dim() > 0 ? self.sizes().back() : 1;
  run_rows(self.data_ptr<float>(), result.data_ptr<float>(), size == 0 ? 0 : self.numel() / size,
           size);
}

template <at::native::forward_fn kernel>
struct Faster<decltype(at::native::softmax_lastdim_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self) {
    LTA_FLOATS(self.scalar_type(), "softmax_lastdim_kernel_impl", [&] {
          if constexpr (std::is_same<scalar_t, float>::value) {
            run_on_rows<&softmax>(result, self);
          } else {
            kernel(result, self);
          }
        });
  }
  static constexpr auto value = &run;
};

template <at::native::forward_fn kernel>
struct Faster<decltype(at::native::log_softmax_lastdim_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self) {
    LTA_FLOATS(self.scalar_type(), "log_softmax_lastdim_kernel_impl", [&] {
          if constexpr (std::is_same<scalar_t, float>::value) {
            run_on_rows<&log_softmax>(result, self);
          } else {
            kernel(result, self);
          }
        });
  }
  static constexpr auto value = &run;
};

} // namespace lta
