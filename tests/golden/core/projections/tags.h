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
  return false;
}
} // namespace at

// A dtype that is not selected is not compiled at all.
//
// Meaning: the cases of ATen/Dispatch.h raise for a dtype that is not selected and then go on with
// the kernel's code, which the compiler works through before the optimiser throws it away. Here a
// switch is the body of a generic lambda, so that `if constexpr` discards such a case before it is
// instantiated ([stmt.if]/2). What runs is the same, and so are the messages. A dtype that the kernel
// does not have keeps its message too, where STRIP_ERROR_MESSAGES leaves `false`.
//
// Trap: where no case is selected nothing tells a switch's type. Its result is then `anything`.
#include <type_traits>

#include <ATen/Dispatch.h>

// As 1.13.1 has it. 2.6.0 raises by TORCH_CHECK, which STRIP_ERROR_MESSAGES strips of tag and dtype
// (see selection_error.h): without them nobody knows what is missing. Quantised dtypes are told by
// this one with every compiler.
#undef AT_PRIVATE_CHECK_SELECTIVE_BUILD
#define AT_PRIVATE_CHECK_SELECTIVE_BUILD(enum_type)                                \
  do {                                                                             \
    if constexpr (!at::should_include_kernel_dtype(at_dispatch_name, enum_type)) { \
      AT_ERROR(                                                                    \
          "dtype '",                                                               \
          toString(enum_type),                                                     \
          "' not selected for kernel tag ",                                        \
          at_dispatch_name);                                                       \
    }                                                                              \
  } while (0)

#ifdef __clang__ // gcc 12 does not compile all of PyTorch's kernels in generic lambdas
namespace lta {

struct anything {
  template <class T>
  operator T() const {
    __builtin_unreachable(); // the switch has raised
  }
};

template <class Switch>
__attribute__((always_inline)) inline auto dispatched(const Switch& run) {
  if constexpr (std::is_void_v<decltype(run(0))>) {
    run(0);
    return anything{};
  } else {
    return run(0);
  }
}

} // namespace lta

#undef AT_DISPATCH_SWITCH
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                  \
  ::lta::dispatched([&](auto) {                              \
    const auto& the_type = TYPE;                             \
    constexpr const char* at_dispatch_name = NAME;           \
    at::ScalarType _st = ::detail::scalar_type(the_type);    \
    RECORD_KERNEL_FUNCTION_DTYPE(at_dispatch_name, _st);     \
    switch (_st) {                                           \
      __VA_ARGS__                                            \
      default:                                               \
        ::lta::dtype_not_implemented(at_dispatch_name, _st); \
    }                                                        \
  })

#undef AT_PRIVATE_CASE_TYPE_USING_HINT
#define AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, HINT, ...)                     \
  case enum_type: {                                                               \
    if constexpr (at::should_include_kernel_dtype(at_dispatch_name, enum_type)) { \
      using HINT C10_UNUSED = c10::impl::ScalarTypeToCPPTypeT<enum_type>;         \
      return __VA_ARGS__();                                                       \
    } else {                                                                      \
      AT_ERROR(                                                                   \
          "dtype '",                                                              \
          toString(enum_type),                                                    \
          "' not selected for kernel tag ",                                       \
          at_dispatch_name);                                                      \
    }                                                                             \
  }
#endif
