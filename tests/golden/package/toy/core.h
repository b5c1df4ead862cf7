// A stand-in for PyTorch's C++ headers: it wants the definitions that its library had.
#pragma once
#include <string>
#if !defined(TOY_MOBILE) || TOY_LEVEL != 2
#error "the package's definitions are missing"
#endif
std::string operator_names();
int core_add(int left, int right);
