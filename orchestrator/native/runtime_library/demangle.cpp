// A demangler that declines: the real one is 110 KB, and only words error messages.
//
// c10::demangle and the handler of std::terminate then show a type by its mangled name.
#include <cstddef>

extern "C" char* __cxa_demangle(const char*, char*, std::size_t*, int* status) {
  if (status != nullptr) {
    *status = -2; // "not a valid name under the C++ ABI mangling rules"
  }
  return nullptr;
}
