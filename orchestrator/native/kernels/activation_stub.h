// aten/src/ATen/native/cpu/Activation.cpp reads this first: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#define _USE_MATH_DEFINES
#include <ATen/native/Activation.h>

#include "faster.h"
#include "iterated.h"

namespace lta {

template <at::native::gelu_fn kernel>
struct Faster<struct at::native::GeluKernel, kernel> {
  static void run(at::TensorIteratorBase& iter, at::native::GeluType by) {
    if (!run_on_floats(iter, by == at::native::GeluType::Tanh ? &gelu_by_tanh : &gelu)) {
      kernel(iter, by);
    }
  }
  static constexpr auto value = &run;
};

template <at::native::structured_activation_fn kernel>
struct Faster<struct at::native::silu_stub, kernel> {
  static void run(at::TensorIteratorBase& iter) {
    if (!run_on_floats(iter, &silu)) {
      kernel(iter);
    }
  }
  static constexpr auto value = &run;
};

} // namespace lta
