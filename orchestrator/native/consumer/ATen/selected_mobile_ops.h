#pragma once
// What consumers of the static libraries read instead of native/selection: the same declaration.
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>
#include <c10/util/string_view.h>

namespace at {
constexpr bool should_include_kernel_dtype(const char* kernel_tag, at::ScalarType scalar_type);
} // namespace at
