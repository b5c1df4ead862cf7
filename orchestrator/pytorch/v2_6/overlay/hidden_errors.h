// Read first by units that throw {fmt}'s errors: fmt/format.h declares `format_error` with default
// visibility, whatever a unit is compiled with, so that a static library for iOS would export it.
#pragma once

// the C++ library's headers first: only {fmt}'s own attributes are meant
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <type_traits>

#define visibility(value) visibility("hidden")
#include <fmt/format.h>
#undef visibility
