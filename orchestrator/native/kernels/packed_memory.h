// Memory of XNNPACK's operators: that of large packed weights is asked for at once.
//
// Packing writes all of it, and each new page that is written costs an exception besides what the
// kernel does for the page: a third of a model's first run. Linux before 5.14 does not know the
// request, and answers it with an error that changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <xnnpack.h>

namespace lta {

inline void* packed_memory(void*, size_t alignment, size_t size) {
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size) != 0) {
    return nullptr;
  }
#ifdef __linux__
  constexpr int kPopulateWrite = 23; // MADV_POPULATE_WRITE, which glibc 2.28 does not name
  constexpr size_t kLeast = 128 << 10; // less comes from pages that are there, as a rule
  if (size >= kLeast) {
    const uintptr_t page = uintptr_t(::sysconf(_SC_PAGESIZE));
    const uintptr_t begin = (uintptr_t(memory) + page - 1) & ~(page - 1);
    const uintptr_t end = (uintptr_t(memory) + size) & ~(page - 1);
    if (begin < end) {
      ::madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite);
    }
  }
#endif
  return memory;
}

// As XNNPACK's own (allocator.c), but for packed weights.
inline const xnn_allocator* memory_for_packing() {
  static const xnn_allocator memory = {
      nullptr,
      [](void*, size_t size) { return std::malloc(size); },
      [](void*, void* at, size_t size) { return std::realloc(at, size); },
      [](void*, void* at) { std::free(at); },
      &packed_memory,
      [](void*, void* at) { std::free(at); },
  };
  return &memory;
}

} // namespace lta
