// aten/src/ATen/native/cpu/FlashAttentionKernel.cpp reads this before its own text: see faster.h.
// PyTorch 1 has no such unit.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/core/Tensor.h>
#include <ATen/native/transformers/attention.h>

#include <cmath>

#include "attention.h"
#include "faster.h"

namespace lta {

// A mask of floats is of floats, too: the caller has asked (transformers/attention.cpp). Its tag is
// not asked for.
template <at::native::flash_attention_fn kernel>
struct Faster<decltype(at::native::flash_attention_kernel), kernel> {
  static void run(const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& query,
                  const at::Tensor& key, const at::Tensor& value, double dropout_p, bool is_causal,
                  std::optional<at::Tensor> attn_mask, std::optional<double> scale) {
    LTA_FLOATS(query.scalar_type(), "flash_attention", [&] {
          if constexpr (std::is_same<scalar_t, float>::value) {
            const double factor = scale ? *scale : 1 / std::sqrt(double(query.size(3)));
            attention(output, logsumexp, query, key, value, is_causal,
                      attn_mask ? &*attn_mask : nullptr, float(factor));
          } else {
            kernel(output, logsumexp, query, key, value, dropout_p, is_causal, attn_mask, scale);
          }
        });
  }
  static constexpr auto value = &run;
};

} // namespace lta
