// aten/src/ATen/native/cpu/layer_norm_kernel.cpp reads this first: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/core/Tensor.h>
#include <ATen/native/layer_norm.h>

#include "faster.h"
#include "rows.h"

namespace lta {

template <at::native::forward_fn kernel>
struct Faster<struct at::native::LayerNormKernel, kernel> {
  static void run(const at::Tensor& from, const at::Tensor& scale, const at::Tensor& shift,
                  int64_t rows, int64_t size, double epsilon, at::Tensor* to, at::Tensor* mean,
                  at::Tensor* deviation) {
    if (!is_float(from) || !is_float(*to) || !is_float_or_none(scale) || !is_float_or_none(shift) ||
        (mean != nullptr && !is_float(*mean)) || (deviation != nullptr && !is_float(*deviation))) {
      kernel(from, scale, shift, rows, size, epsilon, to, mean, deviation);
      return;
    }
    layer_norm(from.data_ptr<float>(), to->data_ptr<float>(), rows, size, float(epsilon),
               scale.defined() ? scale.data_ptr<float>() : nullptr,
               shift.defined() ? shift.data_ptr<float>() : nullptr,
               mean != nullptr ? mean->data_ptr<float>() : nullptr,
               deviation != nullptr ? deviation->data_ptr<float>() : nullptr);
  }
  static constexpr auto value = &run;

 private:
  static bool is_float(const at::Tensor& tensor) {
    return tensor.scalar_type() == at::kFloat && tensor.is_contiguous();
  }
  static bool is_float_or_none(const at::Tensor& tensor) {
    return !tensor.defined() || is_float(tensor);
  }
};

} // namespace lta
