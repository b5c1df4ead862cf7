// aten/src/ATen/native/cpu/Activation.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#define _USE_MATH_DEFINES
#include <ATen/native/Activation.h>

#include "faster.h"
#include "iterated.h"

namespace lta {

template <at::native::gelu_fn kernel>
struct Faster<decltype(at::native::GeluKernel), kernel> {
  static void run(at::TensorIteratorBase& iter, at::native::GeluType by) {
    LTA_FLOATS(iter.dtype(), "GeluKernelImpl", [&] {
      if constexpr (std::is_same<scalar_t, float>::value) {
        run_on_floats(iter, by == at::native::GeluType::Tanh ? &gelu_by_tanh : &gelu);
      } else {
        kernel(iter, by);
      }
    });
  }
  static constexpr auto value = &run;
};

template <at::native::structured_activation_fn kernel>
struct Faster<decltype(at::native::silu_stub), kernel> {
  static void run(at::TensorIteratorBase& iter) {
    LTA_FLOATS_AND_COMPLEX(iter.dtype(), "silu_cpu", [&] {
      if constexpr (std::is_same<scalar_t, float>::value) {
        run_on_floats(iter, &silu);
      } else {
        kernel(iter);
      }
    });
  }
  static constexpr auto value = &run;
};

} // namespace lta
