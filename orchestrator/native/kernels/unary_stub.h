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

#define LTA_FASTER(stub, run_all, name, DISPATCH)                        \
  template <at::native::unary_fn kernel>                                 \
  struct lta::Faster<decltype(at::native::stub), kernel> {               \
    static void run(at::TensorIteratorBase& iter) {                      \
      DISPATCH(iter.dtype(), name, [&] {                                \
        if constexpr (std::is_same<scalar_t, float>::value) {            \
          run_on_floats(iter, &lta::run_all);                            \
        } else {                                                         \
          kernel(iter);                                                  \
        }                                                                \
      });                                                                \
    }                                                                    \
    static constexpr auto value = &run;                                  \
  };

LTA_FASTER(tanh_stub, tanh, "tanh_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_FASTER(exp_stub, exp, "exp_vml_cpu", LTA_FLOATS_AND_COMPLEX)
LTA_FASTER(erf_stub, erf, "erf_vml_cpu", LTA_FLOATS)
