// libc++'s iostream.cpp, from the toolchain's own sources.
#include "narrow.h"

#include <../src/iostream.cpp>
