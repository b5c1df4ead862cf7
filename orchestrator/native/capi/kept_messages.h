// Keeps two of PyTorch's messages alive in release builds: those that name a missing operator.
//
// Meaning: STRIP_ERROR_MESSAGES leaves of TORCH_CHECK(condition, message...) the condition and a
// file name. For "Could not find schema for aten::x.y" (ATen/core/dispatch/Dispatcher.cpp) and
// "Following ops cannot be found: [...]" (torch/csrc/jit/mobile/function.cpp) that loses the one
// thing that tells what to select. These two units are compiled with `-include` of this file, and
// PyTorch's files stay as they are. The first is raised where a kernel calls an operator that is
// not there, the second where a model is loaded.
//
// Trap: a message is recognised by the length of its first literal, as only its type is known to
// the compiler in every use. Another literal of such a length is kept too, which costs some bytes
// and does no harm.
#pragma once

#include <c10/util/Exception.h>

#ifdef STRIP_ERROR_MESSAGES

#include <string>
#include <type_traits>

namespace lta {
namespace kept {

template <class T>
std::false_type is_kept(const T&);
std::false_type is_kept();
std::true_type is_kept(const char (&)[sizeof "Could not find schema for "]);
std::true_type is_kept(const char (&)[sizeof "Following ops cannot be found: ["]);

// Also for no argument at all, where c10::str() is no string yet.
template <class... Arguments>
std::string text(const Arguments&... arguments) {
  return ::c10::str(arguments...);
}

} // namespace kept
} // namespace lta

#define LTA_KEPT_FIRST(first, ...) first
#undef TORCH_CHECK
#define TORCH_CHECK(cond, ...)                                                           \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                                  \
    if (decltype(::lta::kept::is_kept(LTA_KEPT_FIRST(__VA_ARGS__, 0)))::value) {         \
      ::c10::detail::torchCheckFail(                                                     \
          __func__, __FILE__, uint32_t(__LINE__), ::lta::kept::text(__VA_ARGS__));       \
    }                                                                                    \
    ::c10::detail::torchCheckFail(                                                       \
        __func__, __FILE__, uint32_t(__LINE__), TORCH_CHECK_MSG(cond, ""));              \
  }

#endif
