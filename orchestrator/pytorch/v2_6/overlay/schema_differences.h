// Read first by aten/src/ATen/core/op_registration/infer_schema.cpp: its few texts are put together without
// {fmt}, which PyTorch 2 takes for them and which would be 60 KB of every library.
#pragma once

#include <string>

#include <ATen/core/op_registration/infer_schema.h>
#include <c10/util/irange.h>
#include <fmt/format.h>

namespace fmt {
namespace {

inline std::string lta_text(size_t number) {
  return std::to_string(number);
}
inline const std::string& lta_text(const std::string& text) {
  return text;
}

// `format` with the texts in the places of `{}`, of which it has as many.
[[gnu::noinline]] std::string lta_filled(const char* format, const std::string* texts) {
  std::string filled;
  for (; *format != 0; ++format) {
    if (format[0] == '{' && format[1] == '}') {
      filled += *texts++;
      ++format;
    } else {
      filled += *format;
    }
  }
  return filled;
}

template <class... Arguments>
std::string lta_format(const char* format, const Arguments&... arguments) {
  const std::string texts[] = {lta_text(arguments)...};
  return lta_filled(format, texts);
}

} // namespace
} // namespace fmt

#define format lta_format
