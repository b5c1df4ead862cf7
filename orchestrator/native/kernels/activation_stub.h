// aten/src/ATen/native/cpu/Activation.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#define _USE_MATH_DEFINES
#include <ATen/native/Activation.h>

#include "faster.h"
#include "iterated.h"

// What PyTorch registers as (parameters), and calls as (arguments).
#define LTA_ACTIVATION(stub, tag, parameters, arguments, ours)                              \
  template <auto kernel>                                                                    \
  struct lta::Faster<decltype(at::native::stub), kernel> {                                  \
    static void run parameters {                                                            \
      LTA_FLOATS_OR(iter, tag, kernel arguments, LTA_OURS_OR(ours, kernel arguments));      \
    }                                                                                       \
    static constexpr auto value = &run;                                                     \
  };

namespace lta {

inline void leaky_relu_of(at::TensorIteratorBase& iter, const at::Scalar& slope) {
  const float below = slope.to<float>();
  run_on_floats(iter, [below](const float* from, float* to, int64_t count) {
    leaky_relu(from, to, count, below);
  });
}

inline void softplus_of(at::TensorIteratorBase& iter, const at::Scalar& beta,
                        const at::Scalar& threshold) {
  const float by = beta.to<float>(), from_here = threshold.to<float>();
  run_on_floats(iter, [by, from_here](const float* from, float* to, int64_t count) {
    softplus(from, to, count, by, from_here);
  });
}

inline void elu_of(at::TensorIteratorBase& iter, const at::Scalar& alpha, const at::Scalar& scale,
                   const at::Scalar& input_scale) {
  const float above = scale.to<float>(), below = alpha.to<float>() * above;
  const float factor = input_scale.to<float>();
  run_on_floats(iter, [=](const float* from, float* to, int64_t count) {
    elu(from, to, count, below, above, factor);
  });
}

} // namespace lta

LTA_ACTIVATION(hardsigmoid_stub, "hardsigmoid_cpu", (at::TensorIteratorBase & iter), (iter),
               run_on_floats(iter, &hardsigmoid))
LTA_ACTIVATION(hardswish_stub, "hardswish_cpu", (at::TensorIterator & iter), (iter),
               run_on_floats(iter, &hardswish))
LTA_ACTIVATION(mish_stub, "mish_cpu", (at::TensorIteratorBase & iter), (iter),
               run_on_floats(iter, &mish))
LTA_ACTIVATION(glu_stub, "glu_cpu", (at::TensorIteratorBase & iter), (iter),
               run_on_pairs(iter, &glu))
LTA_ACTIVATION(leaky_relu_stub, "leaky_relu_cpu",
               (at::TensorIteratorBase & iter, const at::Scalar& slope), (iter, slope),
               leaky_relu_of(iter, slope))
LTA_ACTIVATION(softplus_stub, "softplus_cpu",
               (at::TensorIteratorBase & iter, const at::Scalar& beta, const at::Scalar& threshold),
               (iter, beta, threshold), softplus_of(iter, beta, threshold))
LTA_ACTIVATION(elu_stub, "elu_cpu",
               (at::TensorIteratorBase & iter, const at::Scalar& alpha, const at::Scalar& scale,
                const at::Scalar& input_scale),
               (iter, alpha, scale, input_scale), elu_of(iter, alpha, scale, input_scale))

namespace lta {

template <at::native::gelu_fn kernel>
struct Faster<decltype(at::native::GeluKernel), kernel> {
  static void run(at::TensorIteratorBase& iter, at::native::GeluType by) {
    LTA_FLOATS(iter.dtype(), "GeluKernelImpl",
               LTA_OURS_OR(run_on_floats(iter, by == at::native::GeluType::Tanh ? &gelu_by_tanh
                                                                               : &gelu),
                           kernel(iter, by)));
  }
  static constexpr auto value = &run;
};

template <at::native::structured_activation_fn kernel>
struct Faster<decltype(at::native::silu_stub), kernel> {
  static void run(at::TensorIteratorBase& iter) {
    LTA_FLOATS_AND_COMPLEX(iter.dtype(), "silu_cpu",
                           LTA_OURS_OR(run_on_floats(iter, &silu), kernel(iter)));
  }
  static constexpr auto value = &run;
};

} // namespace lta
