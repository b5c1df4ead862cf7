// Read first by aten/src/ATen/native/PackedSequence.cpp: asks whether the batches of a packed sequence
// never grow. _pad_packed_sequence() writes a length for each sequence that a step ends; with other
// sizes it writes before the first (CVE-2025-2998, CVE-2025-2999). See model_checks.h.
#pragma once

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>

namespace lta {

// Sizes of batches, on their way to checkLongTensor(), which refuses other dtypes and shapes.
inline const at::Tensor& never_growing(const at::Tensor& sizes) {
  if (sizes.dim() != 1 || sizes.scalar_type() != at::kLong) {
    return sizes;
  }
  const int64_t* size = sizes.data_ptr<int64_t>();
  const int64_t steps = sizes.size(0);
  bool falls = steps > 0 && size[steps - 1] >= 0;
  for (int64_t step = 1; falls && step < steps; ++step) {
    falls = size[step] <= size[step - 1];
  }
  TORCH_CHECK(falls, "the batches of a packed sequence never grow, and none has a negative size");
  return sizes;
}

} // namespace lta

// In _pad_packed_sequence(). _pack_padded_sequence() asks it of `lengths_t`; where it is defined, its
// parameter begins with `const`.
#define LTA_const const
#define LTA_lengths_t lengths_t
#define LTA_batch_sizes_t ::lta::never_growing(batch_sizes_t)
#define checkLongTensor(tensor) checkLongTensor(LTA_##tensor)
