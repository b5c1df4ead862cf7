// Kernels of ours in the place of PyTorch's: what a unit of PyTorch's registers for the CPU becomes
// `Faster<stub, kernel>::value`, the kernel itself where nothing below says another.
//
// A unit is compiled with `-include` of a header that includes this one and specialises Faster for
// some of its stubs. It is read behind the unit's projection, by which its dtypes are selected.
// PyTorch's files stay as they are.
//
// Where all floats are ours, Faster dispatches as the kernel does, with its tag: then the kernel's
// own code for floats is not referred to, and leaves the library.
//
// Trap: the macro is defined after all headers that use it.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/native/DispatchStub.h>

namespace lta {

template <class Stub, auto kernel>
struct Faster {
  static constexpr auto value = kernel;
};

} // namespace lta

// The dtypes that PyTorch's kernels dispatch over. ALSO_REGISTER_*: PyTorch 2 has them, and computes
// with Half too.
#ifdef ALSO_REGISTER_AVX512_DISPATCH
#define LTA_PYTORCH_2
#define LTA_FLOATS(type, tag, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, type, tag, __VA_ARGS__)
#define LTA_FLOATS_AND_COMPLEX(type, tag, ...) \
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(at::kBFloat16, at::kHalf, type, tag, __VA_ARGS__)
#undef ALSO_REGISTER_AVX512_DISPATCH
#undef ALSO_REGISTER_SVE256_DISPATCH
#define ALSO_REGISTER_AVX512_DISPATCH(name, fn) REGISTER_DISPATCH(name, fn)
#define ALSO_REGISTER_SVE256_DISPATCH(name, fn) REGISTER_DISPATCH(name, fn)
#else
#define LTA_FLOATS(type, tag, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, type, tag, __VA_ARGS__)
#define LTA_FLOATS_AND_COMPLEX(type, tag, ...) \
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND1(at::kBFloat16, type, tag, __VA_ARGS__)
#endif

// Of kernels that compute reduced floats before they dispatch: PyTorch 1 asks no tag for bfloat16.
#ifdef LTA_PYTORCH_2
#define LTA_FLOATS_OR(iter, tag, others, ...) LTA_FLOATS((iter).dtype(), tag, __VA_ARGS__)
#else
#define LTA_FLOATS_OR(iter, tag, others, ...)                        \
  if ((iter).dtype() == at::kBFloat16) {                             \
    others;                                                          \
  } else {                                                           \
    AT_DISPATCH_FLOATING_TYPES((iter).dtype(), tag, __VA_ARGS__);    \
  }
#endif

// What a lambda of a dispatch does: ours for floats, else theirs.
#define LTA_OURS_OR(ours, theirs)                         \
  [&] {                                                   \
    if constexpr (std::is_same<scalar_t, float>::value) { \
      ours;                                               \
    } else {                                              \
      theirs;                                             \
    }                                                     \
  }

// decltype: a stub's type has its name in PyTorch 1, and another one in PyTorch 2.
#undef REGISTER_DISPATCH
#define REGISTER_DISPATCH(name, fn) \
  REGISTER_ARCH_DISPATCH(name, CPU_CAPABILITY, (+::lta::Faster<decltype(name), (fn)>::value))
