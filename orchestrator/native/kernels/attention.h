// Scaled dot product attention of floats.
#pragma once

#include <ATen/core/Tensor.h>

namespace lta {

// to = softmax(scale query key^T + mask) value for each head of each batch, and the logarithm of each
// row's sum of exponentials: as aten::_scaled_dot_product_flash_attention_for_cpu has them. Where no key
// is seen, the result is zero.
//
// query, key, value: [batch, head, row, number]; to: [batch, row, head, number]; logs: [batch, row,
// head]. mask: [query, key] or [batch, head, query, key], each of them or 1; null: none. causal: a query
// sees no key behind its own place. Raises where sizes or strides do not fit.
void attention(const at::Tensor& to, const at::Tensor& logs, const at::Tensor& query,
               const at::Tensor& key, const at::Tensor& value, bool causal, const at::Tensor* mask,
               float scale);

} // namespace lta
