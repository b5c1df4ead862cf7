// Read first by c10/util/StringUtil.cpp: texts of wide characters, which nothing in these libraries
// writes, are converted without std::wstring_convert. Its facet is in libc++'s locale.o, which the linker
// would take beside our own (runtime_library/locale.cpp), and fail.
#pragma once

#include <codecvt>
#include <locale>
#include <string>

namespace std {

template <class Facet>
struct lta_wide_text {
  std::string to_bytes(const std::wstring& text) {
    std::string bytes;
    for (const wchar_t one : text) {
      bytes += one >= 0 && one < 0x80 ? char(one) : '?';
    }
    return bytes;
  }
};

} // namespace std

#define wstring_convert lta_wide_text
