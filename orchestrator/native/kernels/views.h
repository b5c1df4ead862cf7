// Views of tensors, without what PyTorch does around them.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lta {

// The same memory with other sizes, as as_strided makes it.
inline at::Tensor view_of(const at::Tensor& of, at::IntArrayRef sizes, at::IntArrayRef strides,
                          int64_t offset) {
  auto view = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(of.storage()), of.key_set(), of.dtype());
  view.unsafeGetTensorImpl()->set_storage_offset(offset);
  view.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return view;
}

} // namespace lta
