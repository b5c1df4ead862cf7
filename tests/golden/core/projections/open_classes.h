#pragma once
// The part of a selection that one translation unit mentions.
#define TORCH_CUSTOM_CLASS_ALLOWLIST other.Class;quantized.Linear;
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>
#include <c10/util/string_view.h>

namespace at {
constexpr bool should_include_kernel_dtype(
    const char* kernel_tag C10_UNUSED,
    at::ScalarType scalar_type C10_UNUSED) {
  const c10::string_view tag C10_UNUSED = c10::string_view(kernel_tag);
  return false;
}
} // namespace at
