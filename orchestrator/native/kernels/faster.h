// Kernels of ours in the place of PyTorch's: what a unit of PyTorch's registers for the CPU becomes
// `Faster<stub, kernel>::value`, the kernel itself where nothing below says another.
//
// A unit is compiled with `-include` of a header that includes this one and specialises Faster for
// some of its stubs. PyTorch's files stay as they are.
//
// Trap: the macro is defined after all headers that use it.
#pragma once

#include <ATen/native/DispatchStub.h>

namespace lta {

template <class Stub, auto kernel>
struct Faster {
  static constexpr auto value = kernel;
};

} // namespace lta

#undef REGISTER_DISPATCH
#define REGISTER_DISPATCH(name, fn) \
  REGISTER_ARCH_DISPATCH(name, CPU_CAPABILITY, (+::lta::Faster<struct name, (fn)>::value))
