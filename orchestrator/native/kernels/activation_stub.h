// aten/src/ATen/native/cpu/Activation.cpp reads this first: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#define _USE_MATH_DEFINES
#include <ATen/Dispatch.h>
#include <ATen/native/Activation.h>

#include "faster.h"
#include "iterated.h"

namespace lta {

template <at::native::gelu_fn kernel>
struct Faster<struct at::native::GeluKernel, kernel> {
  static void run(at::TensorIteratorBase& iter, at::native::GeluType by) {
    AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, iter.dtype(), tag<kernel>("GeluKernelImpl"), [&] {
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
struct Faster<struct at::native::silu_stub, kernel> {
  static void run(at::TensorIteratorBase& iter) {
    AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(at::kBFloat16, iter.dtype(), tag<kernel>("silu_cpu"), [&] {
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
