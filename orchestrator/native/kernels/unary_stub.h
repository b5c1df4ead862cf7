// aten/src/ATen/native/cpu/UnaryOpsKernel.cpp reads this first: see faster.h.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/native/UnaryOps.h>

#include "faster.h"
#include "iterated.h"

#define LTA_FASTER(stub, name)                                \
  template <at::native::unary_fn kernel>                      \
  struct lta::Faster<struct at::native::stub, kernel> {       \
    static void run(at::TensorIteratorBase& iter) {           \
      if (!run_on_floats(iter, &lta::name)) {                 \
        kernel(iter);                                         \
      }                                                       \
    }                                                         \
    static constexpr auto value = &run;                       \
  };

LTA_FASTER(sigmoid_stub, sigmoid)
LTA_FASTER(tanh_stub, tanh)
LTA_FASTER(exp_stub, exp)
LTA_FASTER(erf_stub, erf)
