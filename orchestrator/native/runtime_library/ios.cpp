// libc++'s ios.cpp, from the toolchain's own sources.
#include "narrow.h"

#include <../src/ios.cpp>
