// aten/src/ATen/native/LinearAlgebra.cpp reads this before its own text. Without MKL,
// bmm_out_or_baddbmm_ makes three tensors for each matrix of a batch, and calls addmm with them: for
// small matrices that takes as long as the products.
//
// Trap: the macro stands for the one call of at::hasMKL() in the unit, and uses that function's own
// variables. Where the products are computed, no batch is left for the loop behind it.
#pragma once

#include <ATen/Context.h> // declares the function, whose name must be as it is there

#include "batches.h"

#define hasMKL()                                                                             \
  native::lta_has_mkl(bs, ::lta::multiply_batches(self_or_result, batch1, batch2, beta, alpha))

namespace at {
namespace native {
inline bool lta_has_mkl(int64_t& batches, bool computed) {
  batches = computed ? 0 : batches;
  return false;
}
} // namespace native
} // namespace at
