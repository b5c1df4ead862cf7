// Stands before PyTorch's c10/util/Exception.h and makes its stripped checks smaller.
//
// Meaning: with STRIP_ERROR_MESSAGES upstream's TORCH_CHECK still leaves, for each of a thousand
// checks, the function's name, the file's path, and both again inside the message. Here a check
// leaves its condition, the file's name and the line: what tells where it was. The condition and
// the place reach the user as before, as c10::Error's text.
#pragma once

#include_next <c10/util/Exception.h>

#ifdef STRIP_ERROR_MESSAGES

namespace lta {

// A function of its own, so that a check's cold half is three arguments and a call.
[[noreturn]] __attribute__((noinline, cold)) inline void check_failed(
    const char* file,
    uint32_t line,
    const char* condition) {
  ::c10::detail::torchCheckFail("check", file, line, condition);
}

} // namespace lta

#undef TORCH_CHECK_MSG
#define TORCH_CHECK_MSG(cond, type, ...) (#cond #type " CHECK FAILED")

#undef TORCH_CHECK
#define TORCH_CHECK(cond, ...)                                                  \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                         \
    ::lta::check_failed(__FILE__, static_cast<uint32_t>(__LINE__), #cond);      \
  }

#undef TORCH_INTERNAL_ASSERT
#define TORCH_INTERNAL_ASSERT(cond, ...)                                        \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                         \
    ::lta::check_failed(__FILE__, static_cast<uint32_t>(__LINE__), #cond);      \
  }

#endif
