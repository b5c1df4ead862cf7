#pragma once
// The part of a selection that one translation unit mentions.
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>
#include <c10/util/string_view.h>

namespace at {
constexpr bool should_include_kernel_dtype(
    const char* kernel_tag C10_UNUSED,
    at::ScalarType scalar_type C10_UNUSED) {
  const c10::string_view tag C10_UNUSED = c10::string_view(kernel_tag);
  if (tag.compare("add_stub") == 0) {
    return scalar_type == at::ScalarType::Float || scalar_type == at::ScalarType::Long;
  }
  if (tag.compare("copy_") == 0) {
    return true;
  }
  if (tag.compare("unmentioned") == 0) {
    return scalar_type == at::ScalarType::Half;
  }
  return false;
}
} // namespace at
