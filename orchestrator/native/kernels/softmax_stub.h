// aten/src/ATen/native/cpu/SoftMaxKernel.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/Parallel.h>
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

template <void (*run_columns)(const float*, float*, int64_t count, int64_t size, int64_t apart)>
void run_on_columns(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
  TORCH_CHECK(self.is_contiguous() && result.is_contiguous() && result.numel() == self.numel());
  int64_t apart = 1; // not the stride, which says nothing of a dimension with one number
  for (const int64_t inner : self.sizes().slice(size_t(dim) + 1)) {
    apart *= inner;
  }
  const int64_t size = self.size(dim), block = size * apart;
  const float* from = self.data_ptr<float>();
  float* to = result.data_ptr<float>();
  const int64_t blocks = block == 0 ? 0 : self.numel() / block;
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / std::max<int64_t>(1, block));
  at::parallel_for(0, blocks, grain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      run_columns(from + i * block, to + i * block, apart, size, apart);
    }
  });
}

template <at::native::forward_fn kernel>
struct Faster<decltype(at::native::softmax_lastdim_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self) {
    LTA_FLOATS(self.scalar_type(), "softmax_lastdim_kernel_impl",
               LTA_OURS_OR(run_on_rows<&softmax>(result, self), kernel(result, self)));
  }
  static constexpr auto value = &run;
};

template <at::native::forward_fn kernel>
struct Faster<decltype(at::native::log_softmax_lastdim_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self) {
    LTA_FLOATS(self.scalar_type(), "log_softmax_lastdim_kernel_impl",
               LTA_OURS_OR(run_on_rows<&log_softmax>(result, self), kernel(result, self)));
  }
  static constexpr auto value = &run;
};

template <at::native::forward_fn_with_dim kernel>
struct Faster<decltype(at::native::softmax_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
    LTA_FLOATS(self.scalar_type(), "softmax_kernel_impl",
               LTA_OURS_OR(run_on_columns<&softmax_of_columns>(result, self, dim),
                           kernel(result, self, dim)));
  }
  static constexpr auto value = &run;
};

template <at::native::forward_fn_with_dim kernel>
struct Faster<decltype(at::native::log_softmax_kernel), kernel> {
  static void run(const at::Tensor& result, const at::Tensor& self, int64_t dim) {
    LTA_FLOATS(self.scalar_type(), "softmax_kernel_impl",
               LTA_OURS_OR(run_on_columns<&log_softmax_of_columns>(result, self, dim),
                           kernel(result, self, dim)));
  }
  static constexpr auto value = &run;
};

} // namespace lta
