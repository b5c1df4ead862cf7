// aten/src/ATen/native/cpu/layer_norm_kernel.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/core/Tensor.h>
#include <ATen/native/layer_norm.h>

#include "faster.h"
#include "rows.h"

namespace lta {

inline float* floats_of(const at::Tensor& tensor, int64_t count) {
  if (!tensor.defined()) {
    return nullptr;
  }
  // as the callers have made all of them (layer_norm.cpp)
  TORCH_CHECK(tensor.is_contiguous() && tensor.numel() == count);
  return tensor.data_ptr<float>();
}

template <at::native::forward_fn kernel>
struct Faster<decltype(at::native::LayerNormKernel), kernel> {
  static void run(const at::Tensor& from, const at::Tensor& scale, const at::Tensor& shift,
                  int64_t rows, int64_t size, double epsilon, at::Tensor* to, at::Tensor* mean,
                  at::Tensor* deviation) {
    LTA_FLOATS(from.scalar_type(), "LayerNormKernelImpl", [&] {
          if constexpr (std::is_same<scalar_t, float>::value) {
            layer_norm(floats_of(from, rows * size), floats_of(*to, rows * size), rows, size,
                       float(epsilon), floats_of(scale, size), floats_of(shift, size),
                       mean == nullptr ? nullptr : floats_of(*mean, rows),
                       deviation == nullptr ? nullptr : floats_of(*deviation, rows));
          } else {
            kernel(from, scale, shift, rows, size, epsilon, to, mean, deviation);
          }
        });
  }
  static constexpr auto value = &run;
};

} // namespace lta
