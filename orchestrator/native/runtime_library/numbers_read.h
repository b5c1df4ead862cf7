// Texts of numbers are read as in the C locale, whichever one the process has set.
//
// Meaning: `std::stod` asks LC_NUMERIC. In a process that has set de_DE, 0.01 in an operator's schema is 0,
// and a model's `float("0.5")` fails. PyTorch's units that call it read this first.
//
// Trap: `stod` is a macro until the unit ends; the headers that declare it come before.
#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

#include <c10/util/string_utils.h>
#include <torch/csrc/jit/frontend/strtod.h>

namespace std {

inline double lta_stod(const std::string& text, std::size_t* used = nullptr) {
  const char* const begin = text.c_str();
  char* end = nullptr;
  const int before = errno;
  errno = 0;
  const double number = torch::jit::strtod_c(begin, &end);
  const bool is_beyond = errno == ERANGE;
  errno = before;
  if (end == begin) {
    throw std::invalid_argument("stod: no conversion");
  }
  if (is_beyond) {
    throw std::out_of_range("stod: out of range");
  }
  if (used != nullptr) {
    *used = std::size_t(end - begin);
  }
  return number;
}

} // namespace std

namespace c10 {
using std::lta_stod;
} // namespace c10

#define stod lta_stod
