/* Read before everything where the C library is musl.
 *
 * Meaning: musl's headers define NULL as nullptr for C++; glibc's, bionic's and Apple's as a null
 * that is a number too, which PyTorch relies on (native/SoftMax.cpp gives NULL for an
 * optional<int64_t>). All of musl's headers that define it are read here, and do not do so again. */
#pragma once

/* The C++ library's own sources are compiled as it wants them. */
#if defined(__cplusplus) && !defined(_LIBCPP_BUILDING_LIBRARY)
#include <locale.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#undef NULL
#define NULL __null
#endif
