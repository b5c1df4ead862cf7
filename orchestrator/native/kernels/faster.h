// Kernels of ours in the place of PyTorch's: what a unit of PyTorch's registers for the CPU becomes
// `Faster<stub, kernel>::value`, the kernel itself where nothing below says another.
//
// A unit is compiled with `-include` of a header that includes this one and specialises Faster for
// some of its stubs. PyTorch's files stay as they are.
//
// Where all floats are ours, Faster dispatches as the kernel does, with its tag: then the kernel's
// own code for floats is not referred to, and leaves the library.
//
// Trap: the macro is defined after all headers that use it.
#pragma once

#include <ATen/native/DispatchStub.h>

namespace lta {

template <class Stub, auto kernel>
struct Faster {
  static constexpr auto value = kernel;
};

// A tag that is looked up where Faster is used: the unit's selection is read after this header.
template <auto kernel>
constexpr const char* tag(const char* name) {
  return name;
}

} // namespace lta

#undef REGISTER_DISPATCH
#define REGISTER_DISPATCH(name, fn) \
  REGISTER_ARCH_DISPATCH(name, CPU_CAPABILITY, (+::lta::Faster<struct name, (fn)>::value))
