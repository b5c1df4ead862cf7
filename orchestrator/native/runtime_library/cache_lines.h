// Read first by c10/core/impl/alloc_cpu.cpp: on x86-64 a tensor's contents begin a cache line.
//
// PyTorch's mobile builds align memory to 16 bytes (gAlignment). A vector of 32 or 64 bytes then often
// lies in two lines, and reading it costs twice: whether it does was the luck of the heap. Contents
// begin gAlignment bytes into the memory (CPUAllocator.cpp, PreGuardBytes).
//
// Not by posix_memalign: beyond malloc's own alignment, glibc has no cache for it.
#pragma once

#if defined(__x86_64__) && !defined(__ANDROID__)

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// All that the unit includes: `free` is a macro behind them.
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Flags.h>
#include <c10/util/Logging.h>
#if __has_include(<c10/util/env.h>)
#include <c10/util/env.h>
#endif
#if __has_include(<c10/util/error.h>)
#include <c10/util/error.h>
#endif
#include <c10/util/irange.h>
#include <c10/util/numa.h>
#ifdef __linux__
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace lta {

constexpr size_t kLine = 64;

// As posix_memalign. More than a line is asked for where pages should be huge: these begin the memory.
inline int allocate_lines(void** data, size_t alignment, size_t size) {
  const size_t guard = alignment > kLine ? 0 : c10::gAlignment;
  const size_t line = alignment > kLine ? alignment : kLine;
  static_assert(alignof(std::max_align_t) >= 2 * sizeof(void*), "malloc's own alignment");
  static_assert(c10::gAlignment % alignof(std::max_align_t) == 0, "what is left before the memory");
  void* const whole = size > SIZE_MAX - line ? nullptr : std::malloc(size + line);
  if (whole == nullptr) {
    return ENOMEM;
  }
  const uintptr_t least = uintptr_t(whole) + sizeof(void*) + guard;
  void** const begin = reinterpret_cast<void**>((least + line - 1) / line * line - guard);
  begin[-1] = whole;
  *data = begin;
  return 0;
}

inline void free_lines(void* data) {
  if (data != nullptr) {
    std::free(static_cast<void**>(data)[-1]);
  }
}

} // namespace lta

#define posix_memalign ::lta::allocate_lines
#define free ::lta::free_lines

#endif
