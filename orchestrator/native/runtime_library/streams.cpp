// libc++'s ios.instantiations.cpp, from the toolchain's own sources.
#include "narrow.h"

#include <../src/ios.instantiations.cpp>
