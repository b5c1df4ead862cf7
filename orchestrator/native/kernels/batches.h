// Products of batches of float matrices without a tensor for each matrix.
#pragma once

#include <ATen/core/Tensor.h>

namespace lta {

// to[i] = alpha * one[i] other[i] + beta * to[i] for each of a batch, as aten::baddbmm_ has it; `to` is
// not read where beta is 0. False, and nothing is written, where it is left to the caller: for other
// dtypes, and for matrices with neither rows nor columns side by side.
bool multiply_batches(const at::Tensor& to, const at::Tensor& one, const at::Tensor& other,
                      const at::Scalar& beta, const at::Scalar& alpha);

} // namespace lta
