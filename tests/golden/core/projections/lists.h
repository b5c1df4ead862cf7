#pragma once
// The part of a selection that one translation unit mentions.
#define TORCH_BUILD_FEATURE_ALLOWLIST FEATURE;
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

// Not by upstream's macros TORCH_OPERATOR_WHITELIST and TORCH_CUSTOM_CLASS_ALLOWLIST: those are
// expanded where op_allowlist.h is read, which a precompiled header has done already.
#include <torch/library.h>

namespace lta {
constexpr bool operator_selected(c10::string_view schema) {
  return c10::impl::allowlist_contains(
      "aten::add.Tensor;aten::relu", schema.substr(0, schema.find("(")));
}
} // namespace lta
#undef TORCH_SELECTIVE_NAME
#undef TORCH_SELECTIVE_SCHEMA
#define TORCH_SELECTIVE_NAME(n) torch::detail::SelectiveStr<::lta::operator_selected(n)>(n)
#define TORCH_SELECTIVE_SCHEMA(n) TORCH_SELECTIVE_NAME(n)

namespace lta {
constexpr bool class_selected(c10::string_view name) {
  return c10::impl::allowlist_contains("quantized.Linear", name);
}
} // namespace lta
#undef TORCH_SELECTIVE_CLASS
#define TORCH_SELECTIVE_CLASS(n) torch::detail::SelectiveStr<::lta::class_selected(n)>(n)
