// Read before the C++ library's own sources: they are compiled without wide characters.
//
// Trap: what the shared library does not define here the linker takes from the toolchain's
// libc++.a, whole objects at a time. A use of wide streams or of the absent facets would take the
// same symbols from there again; the link then fails with duplicate symbols, and says which.
#pragma once

#undef _LIBCPP_HAS_WIDE_CHARACTERS
#define _LIBCPP_HAS_WIDE_CHARACTERS 0
