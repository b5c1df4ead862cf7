// Registrations selected for one app; written by the orchestrator from torchgen's output.
#include "RegisterSchema.cpp"
#undef TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include "RegisterBackendSelect.cpp"
#undef create_out
#define create_out create_out_CPU
#undef resize_out
#define resize_out resize_out_CPU
#undef check_inplace
#define check_inplace check_inplace_CPU
#undef maybe_create_proxy
#define maybe_create_proxy maybe_create_proxy_CPU
#include "RegisterCPU.cpp"
#undef create_out
#define create_out create_out_CompositeImplicitAutograd
#undef resize_out
#define resize_out resize_out_CompositeImplicitAutograd
#undef check_inplace
#define check_inplace check_inplace_CompositeImplicitAutograd
#undef maybe_create_proxy
#define maybe_create_proxy maybe_create_proxy_CompositeImplicitAutograd
#include "RegisterCompositeImplicitAutograd.cpp"

// What stands in for the dispatcher before a kernel that is called directly.
//
// Meaning: an operator that only code calls, and that has one kernel in this library, needs no table.
// Its typed entry point calls the kernel where the dispatcher would have, and raises the dispatcher's
// own error where it would have found none: for a tensor of another backend, or one with a key that
// changes what every operator means (Conjugate, Negative).
//
// Trap: keys that the dispatcher passes through have a fallthrough in every library (autograd's) or
// are left out of every thread (autocast's); a key that is neither must not be among them.
#include <ATen/core/dispatch/DispatchKeyExtractor.h>

namespace lta {

constexpr c10::DispatchKeySet passed_through = c10::autograd_dispatch_keyset_with_ADInplaceOrView |
    c10::autocast_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::BackendSelect);
// Backends, for which an alias key's kernel is the operator's (c10/core/DispatchKeySet.cpp).
constexpr c10::DispatchKeySet functional = c10::DispatchKeySet(
    {c10::DispatchKey::Dense, c10::DispatchKey::Quantized, c10::DispatchKey::SparseCsrCPU});
constexpr c10::DispatchKeySet backends(c10::DispatchKey key) {
  return key == c10::DispatchKey::CompositeExplicitAutogradNonFunctional
      ? functional
      : functional | c10::DispatchKeySet(c10::DispatchKey::Sparse);
}

[[noreturn]] __attribute__((noinline, cold)) inline void unresolved(
    const char* name,
    c10::DispatchKeySet keys) {
  throw c10::NotImplementedError(
      {"unresolved", "registrations.cpp", 0},
      c10::str("Could not run '", name, "' with arguments from the '",
               c10::toString(keys.highestPriorityTypeId()),
               "' backend: this library has no such kernel"));
}

template <c10::DispatchKey key>
__attribute__((always_inline)) inline void resolved(const char* name, c10::DispatchKeySet keys) {
  const c10::DispatchKeySet left = keys - passed_through;
  const bool expected = key == c10::DispatchKey::CPU
      ? left == c10::DispatchKeySet(c10::DispatchKey::CPU)
      : ((left - backends(key)).raw_repr() >> c10::num_backends) == 0;
  if (C10_UNLIKELY(!expected)) {
    unresolved(name, left);
  }
}

} // namespace lta

#include "Resolved.cpp"
