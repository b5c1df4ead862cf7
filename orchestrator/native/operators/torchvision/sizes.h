// Checks of the arguments of torchvision's operators.
//
// A mobile build of PyTorch does not check that a tensor's size in bytes fits into 64 bits, so what
// is computed of sizes is checked here.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <limits>

namespace vision {

constexpr int64_t kMostSize = std::numeric_limits<int32_t>::max();

// The bytes of a tensor of these sizes, each at least 0, can be counted.
inline void require_countable(const char* name, at::IntArrayRef sizes, int64_t item) {
  int64_t bytes = item;
  bool is_empty = false, fits = true;
  for (const int64_t size : sizes) {
    is_empty |= size == 0;
    fits = fits && (size == 0 || !__builtin_mul_overflow(bytes, size, &bytes));
  }
  TORCH_CHECK(is_empty || fits, name, " would have too many elements: its sizes are ", sizes);
}

// A tensor of so many dimensions, that can be copied.
inline void require_tensor(const char* name, const at::Tensor& tensor, int64_t dimensions) {
  TORCH_CHECK(
      tensor.dim() == dimensions,
      name, " should be a ", dimensions, "d tensor, got ", tensor.dim(), "D");
  for (const int64_t size : tensor.sizes()) {
    TORCH_CHECK(size <= kMostSize, name, " is too large: its sizes are ", tensor.sizes());
  }
  require_countable(name, tensor.sizes(), static_cast<int64_t>(tensor.element_size()));
}

inline void require_same_type(
    const char* name, const at::Tensor& tensor, const char* other_name, const at::Tensor& other) {
  TORCH_CHECK(
      tensor.scalar_type() == other.scalar_type(),
      name, " should have the same type as ", other_name, ", got ", tensor.scalar_type(), " and ",
      other.scalar_type());
}

inline void require_between(const char* name, int64_t value, int64_t least) {
  TORCH_CHECK(
      value >= least && value <= kMostSize,
      name, " should be from ", least, " to ", kMostSize, ", got ", value);
}

} // namespace vision
