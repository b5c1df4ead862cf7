#pragma once
// The same for every app: what is selected comes from a unit's projection, a header that the
// compiler reads first (`-include`).  A unit without one mentions nothing that can be selected.
#include <c10/core/ScalarType.h>
#include <c10/macros/Macros.h>
#include <c10/util/string_view.h>

// Keeps tag and dtype in the message of a dtype that was not selected.
#include "../../capi/selection_error.h"

namespace at {
constexpr bool should_include_kernel_dtype(const char* kernel_tag, at::ScalarType scalar_type);
} // namespace at
