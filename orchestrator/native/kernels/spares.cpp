// See spares.h.
#include "spares.h"
#include "../capi/prepare_module.h"

#include <atomic>
#include <utility>

#include <ATen/EmptyTensor.h>

namespace lta {
namespace {

// Of each power of two so many, from kLeast bytes on: 64 KB in all, of which a model has a few.
constexpr int kSizes = 8, kOfEach = 4;
constexpr size_t kLeast = 64, kMost = kLeast << (kSizes - 1);

// AddressSanitizer watches memory from its own allocator alone.
#ifndef __has_feature // GCC
#define __has_feature(name) 0
#endif
constexpr bool kReused = !__has_feature(address_sanitizer);

struct Spare {
  at::Tensor tensor;
  // As it was made. A storage that is copied when somebody writes has another deleter.
  const void* data = nullptr;
  c10::DeleterFnPtr deleter = nullptr;
  c10::DispatchKeySet keys;
  size_t bytes = 0;

  // Nothing else refers to it, and whoever did so has left it as it was.
  bool may_hold(size_t wanted, c10::ScalarType dtype) const {
    const c10::TensorImpl& own = *tensor.unsafeGetTensorImpl();
    return wanted <= bytes && own.dtype() == c10::scalarTypeToTypeMeta(dtype) &&
        own.key_set() == keys && !own.is_wrapped_number() &&
        own.storage().use_count() == 1 &&
        own.storage().data_ptr().get() == data &&
        own.storage().data_ptr().get_deleter() == deleter;
  }
};

struct Spares {
  Spare each[kSizes][kOfEach];
  unsigned next = 0; // which one goes where none may
};

std::atomic<Spares*> shelf{nullptr};
__thread Spares* current = nullptr;

void give(Spares* some) { delete shelf.exchange(some); }

Spares& of_this_run() {
  if (current == nullptr) {
    current = shelf.exchange(nullptr);
  }
  if (current == nullptr) {
    current = new Spares;
  }
  return *current;
}

void shape(c10::TensorImpl& tensor, at::IntArrayRef sizes, at::IntArrayRef strides, size_t bytes) {
  if (tensor.sizes() != sizes || tensor.strides() != strides) {
    tensor.set_sizes_and_strides(sizes, strides);
  }
  if (tensor.storage_offset() != 0) {
    tensor.set_storage_offset(0);
  }
  if (tensor.storage().nbytes() != bytes) {
    tensor.storage().set_nbytes(bytes);
  }
}

struct Start {
  Start() {
    end_of_run = [] {
      if (current != nullptr) {
        give(std::exchange(current, nullptr));
      }
    };
    end_of_module = [] { give(nullptr); };
  }
} start;

} // namespace

at::Tensor spare(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t count,
                 c10::ScalarType dtype) {
  const size_t bytes = size_t(count) * c10::elementSize(dtype);
  if (!kReused || bytes == 0 || bytes > kMost) {
    return at::Tensor(at::detail::empty_strided_cpu(sizes, strides, dtype));
  }
  Spares& spares = of_this_run();
  const int power = bytes <= kLeast ? 0 : 64 - __builtin_clzll((bytes - 1) / kLeast);
  Spare* found = nullptr;
  for (Spare& one : spares.each[power]) {
    if (one.tensor.use_count() > 1) {
      continue;
    }
    found = &one;
    if (one.tensor.defined() && one.may_hold(bytes, dtype)) {
      shape(*one.tensor.unsafeGetTensorImpl(), sizes, strides, bytes);
      return one.tensor;
    }
  }
  if (found == nullptr) {
    found = &spares.each[power][spares.next++ % kOfEach];
  }
  found->tensor = at::Tensor(at::detail::empty_strided_cpu(sizes, strides, dtype));
  const c10::DataPtr& made = found->tensor.storage().data_ptr();
  found->data = made.get();
  found->deleter = made.get_deleter();
  found->keys = found->tensor.key_set();
  found->bytes = bytes;
  return found->tensor;
}

} // namespace lta
