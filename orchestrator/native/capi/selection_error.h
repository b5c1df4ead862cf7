// Keeps the names in "dtype 'Half' not selected for kernel tag add" alive in release builds.
//
// Meaning: every unit with dtypes to select includes this file first, from its projection or from
// ATen/selected_mobile_ops.h. ATen/Dispatch.h raises through AT_ERROR, which with
// STRIP_ERROR_MESSAGES drops all of its arguments: only a file name is left. Here AT_ERROR is
// redefined so that this one message calls dtype_not_selected() with tag and dtype; all others are
// stripped as before, and PyTorch's files stay as they are. It costs some tens of bytes a tag.
//
// Trap: only AT_ERROR's first argument is looked at, and only where it is a string literal.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

namespace lta {

// Raises c10::Error with upstream's own text. Defined in selection_error.cpp, which every variant
// links.
[[noreturn]] void dtype_not_selected(const char* dtype, const char* kernel_tag);

// Likewise, of a dtype that PyTorch's kernel does not have. Units call it in place of AT_ERROR
// (late_dispatch.h.j2). It takes the dtype's number: a table of names in each unit costs more.
[[noreturn]] void dtype_not_implemented(const char* kernel_tag, c10::ScalarType dtype);

namespace detail {

constexpr bool is_dtype_message(const char (&text)[8]) {
  return text[0] == 'd' && text[1] == 't' && text[2] == 'y' && text[3] == 'p' &&
      text[4] == 'e' && text[5] == ' ' && text[6] == '\'';
}
template <class T>
constexpr bool is_dtype_message(const T&) {
  return false;
}

[[noreturn]] inline void raise_dtype(
    const char*, const char* dtype, const char*, const char* kernel_tag) {
  dtype_not_selected(dtype, kernel_tag);
}
// Never called: it lets the untaken branch of every other message compile.
template <class... Arguments>
inline void raise_dtype(const Arguments&...) {}

} // namespace detail
} // namespace lta

#ifdef STRIP_ERROR_MESSAGES
#define LTA_FIRST(first, ...) first
#undef AT_ERROR
#define AT_ERROR(...)                                                   \
  do {                                                                  \
    if (::lta::detail::is_dtype_message(LTA_FIRST(__VA_ARGS__, 0))) {   \
      ::lta::detail::raise_dtype(__VA_ARGS__);                          \
    }                                                                   \
    TORCH_CHECK(false, ::c10::str(__VA_ARGS__));                        \
  } while (false)
#endif
