// libc++'s string.cpp, from the toolchain's own sources; wide strings stay, being few.
#include <../src/string.cpp>
