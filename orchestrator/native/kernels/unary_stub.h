// aten/src/ATen/native/cpu/UnaryOpsKernel.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/native/UnaryOps.h>

#include "faster.h"
#include "iterated.h"

namespace lta {

// Not with sigmoid's tag: its kernel asks that for no bfloat16, but computes it.
template <at::native::unary_fn kernel>
struct Faster<decltype(at::native::sigmoid_stub), kernel> {
  static void run(at::TensorIteratorBase& iter) {
    if (iter.common_dtype() == at::kFloat) {
      run_on_floats(iter, &sigmoid);
    } else {
      kernel(iter);
    }
  }
  static constexpr auto value = &run;
};

} // namespace lta

#define LTA_UNARY(name, tag, DISPATCH)                                                        \
  template <at::native::unary_fn kernel>                                                      \
  struct lta::Faster<decltype(at::native::name##_stub), kernel> {                             \
    static void run(at::TensorIteratorBase& iter) {                                           \
      DISPATCH(iter.dtype(), tag, LTA_OURS_OR(run_on_floats(iter, &lta::name), kernel(iter))); \
    }                                                                                         \
    static constexpr auto value = &run;                                                       \
  };
#define LTA_RECIPROCALS(type, tag, ...) \
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(at::kBFloat16, at::kHalf, type, tag, __VA_ARGS__)

LTA_UNARY(tanh, "tanh_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(exp, "exp_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(erf, "erf_vml_cpu", LTA_FLOATS)
LTA_UNARY(log, "log_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(sin, "sin_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(cos, "cos_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(sqrt, "sqrt_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(rsqrt, "rsqrt_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_UNARY(reciprocal, "reciprocal_cpu", LTA_RECIPROCALS)
LTA_UNARY(floor, "floor_vml_cpu", LTA_FLOATS)
LTA_UNARY(ceil, "ceil_vml_cpu", LTA_FLOATS)
LTA_UNARY(round, "round_vml_cpu", LTA_FLOATS)
LTA_UNARY(trunc, "trunc_vml_cpu", LTA_FLOATS)
