// Numbers with a point are written as in the C locale, whichever one the process has set.
//
// Meaning: `std::to_string` of a double asks LC_NUMERIC. PyTorch's units that write one into a message
// read this first. Streams ask for nothing: theirs is the classic locale of a C++ library of our own.
//
// Trap: `to_string` is a macro until the unit ends; the headers that declare it come before.
#pragma once

#include <cmath>
#include <cstdio>
#include <string>

#include <c10/util/C++17.h>
#include <c10/util/string_utils.h>

namespace std {

inline std::string lta_to_string(double number) {
  char text[400]; // the longest has 309 digits before its point
  const int size = std::snprintf(text, sizeof text, "%f", number);
  if (!std::isfinite(number)) {
    return text;
  }
  // six digits at the end; before them the locale's point, of a byte or more
  int point = size - 6;
  while (point > 0 && (text[point - 1] < '0' || text[point - 1] > '9')) {
    --point;
  }
  return std::string(text, std::size_t(point)) + '.' + (text + size - 6);
}

template <class Number>
std::string lta_to_string(Number number) {
  return std::to_string(number);
}

} // namespace std

namespace c10 {
using std::lta_to_string;
namespace guts { // PyTorch 1.13 has one of its own there
using std::lta_to_string;
} // namespace guts
} // namespace c10

#define to_string lta_to_string
