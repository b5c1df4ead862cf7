#pragma once
// The part of a selection that one translation unit mentions.
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>
#include <c10/util/string_view.h>

namespace at {
constexpr bool should_include_kernel_dtype(
    const char* kernel_tag C10_UNUSED,
    at::ScalarType scalar_type C10_UNUSED) {
  return true;
}
} // namespace at
