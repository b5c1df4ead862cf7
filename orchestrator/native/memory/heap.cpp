// See heap.h.
#include "heap.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

namespace memory {

namespace {

// ---- The C library's own ----

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

struct Real {
  decltype(&::malloc) malloc;
  decltype(&::free) free;
  decltype(&::realloc) realloc;
  decltype(&::aligned_alloc) aligned_alloc;
  decltype(&::mmap) mmap;
  decltype(&::munmap) munmap;
};

// What dlsym itself allocates, before it has said where malloc is. It is never freed.
alignas(std::max_align_t) char early[4096];
size_t early_used = 0;

bool is_early(const void* data) {
  return data >= early && data < early + sizeof early;
}

void* allocate_early(size_t size) {
  const size_t start = early_used;
  early_used += (size + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
  return early_used <= sizeof early ? early + start : nullptr;
}

bool is_looking = false;

// Null while it is looked for. The first call is the loader's, before there are threads.
const Real* real() {
  static Real found;
  static bool is_found = false;
  if (is_found || is_looking) {
    return is_found ? &found : nullptr;
  }
  is_looking = true;
  found = {next<decltype(::malloc)>("malloc"),   next<decltype(::free)>("free"),
           next<decltype(::realloc)>("realloc"), next<decltype(::aligned_alloc)>("aligned_alloc"),
           next<decltype(::mmap)>("mmap"),       next<decltype(::munmap)>("munmap")};
  is_looking = false;
  is_found = true;
  return &found;
}

// Of what is written down here, which is counted nowhere.
template <class T>
struct Uncounted {
  using value_type = T;
  Uncounted() = default;
  template <class Other>
  Uncounted(const Uncounted<Other>&) {}
  T* allocate(size_t count) {
    void* const data = real()->malloc(count * sizeof(T));
    if (data == nullptr) {
      std::abort();
    }
    return static_cast<T*>(data);
  }
  void deallocate(T* data, size_t) { real()->free(data); }
  bool operator==(const Uncounted&) const { return true; }
  bool operator!=(const Uncounted&) const { return false; }
};

// ---- The blocks ----

template <class T>
using List = std::vector<T, Uncounted<T>>;

// A moment when there was most.
struct Mark {
  size_t bytes = 0;
  uint64_t allocation = 0; // the last one by then
  Place place = 0;
  List<Block> gone; // that were there, and left since
};

// From this size on a block is asked for whether it was ever written to.
constexpr size_t kLarge = 1 << 20;

// Whether none of a block's pages was written to but the one that it begins in.
bool is_untouched(const void* data, size_t size) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (uintptr_t(data) + page - 1) / page * page;
  const uintptr_t end = (uintptr_t(data) + size) / page * page;
  List<unsigned char> resident((end - begin) / page);
  if (mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()) != 0) {
    return false;
  }
  return std::none_of(resident.begin(), resident.end(), [](unsigned char one) { return (one & 1) != 0; });
}

struct Heap {
  std::map<uintptr_t, Block, std::less<uintptr_t>, Uncounted<std::pair<const uintptr_t, Block>>> blocks;
  Held held;
  uint64_t allocations = 0;
  uint32_t phase = 0;
  Mark peak;
  Mark before; // the peak that a large block of now took the place of

  void add(const void* data, size_t bytes, Place place, bool is_mapped) {
    blocks[uintptr_t(data)] = {bytes, ++allocations, phase, place, 0, is_mapped, false};
    take(bytes, is_mapped, place);
  }

  void take(size_t bytes, bool is_mapped, Place place) {
    (is_mapped ? held.mapped : held.heap) += bytes;
    if (held.all() > peak.bytes) {
      if (bytes >= kLarge) {
        before = std::move(peak);
      }
      peak.bytes = held.all();
      peak.allocation = allocations;
      peak.place = place;
      peak.gone.clear();
    }
  }

  void leave(const Block& block) {
    (block.is_mapped ? held.mapped : held.heap) -= block.bytes;
    if (block.born <= peak.allocation) {
      peak.gone.push_back(block);
    }
  }

  void remove(const void* data) {
    const auto found = blocks.find(uintptr_t(data));
    if (found != blocks.end()) {
      const Block block = found->second;
      if (!block.is_away) {
        leave(block);
      }
      blocks.erase(found);
      // `lta_module_load` does so, for glibc to keep memory (capi.cpp): it never had it
      if (block.bytes >= kLarge && block.born == peak.allocation && peak.gone.size() == 1 &&
          is_untouched(data, block.bytes)) {
        peak = std::move(before);
      }
    }
  }

  Block* around(const void* data) {
    auto found = blocks.upper_bound(uintptr_t(data));
    if (found == blocks.begin()) {
      return nullptr;
    }
    --found;
    return uintptr_t(data) - found->first < found->second.bytes ? &found->second : nullptr;
  }
};

// Before this program's own initialisers, and after its end.
Heap& heap() {
  alignas(Heap) static char room[sizeof(Heap)];
  static Heap* const made = new (room) Heap;
  return *made;
}

std::atomic<bool> is_counting{true};
std::atomic<Place> asking{0};
std::atomic_flag locked = ATOMIC_FLAG_INIT;

struct Lock {
  Lock() {
    while (locked.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~Lock() { locked.clear(std::memory_order_release); }
};

void add(const void* data, size_t bytes, bool is_mapped = false) {
  if (data != nullptr && is_counting.load()) {
    const Lock lock;
    heap().add(data, bytes, asking.load(), is_mapped);
  }
}

void remove(const void* data) {
  const Lock lock;
  heap().remove(data);
}

// Pages of a Block of weights that are laid over its own: without access while they are away.
void map_over(const void* data, int access) {
  const Lock lock;
  const auto found = heap().blocks.find(uintptr_t(data));
  if (found == heap().blocks.end() || found->second.is_away == (access == PROT_NONE)) {
    return;
  }
  Block& block = found->second;
  if (access == PROT_NONE) {
    heap().leave(block);
    block.is_away = true;
  } else {
    block.is_away = false;
    block.born = ++heap().allocations;
    heap().take(block.bytes, block.is_mapped, asking.load());
  }
}

} // namespace

void count(bool on) { is_counting.store(on); }

Place at(Place place) { return asking.exchange(place); }

void begin() {
  const Lock lock;
  Heap& of = heap();
  ++of.phase;
  of.peak = {of.held.all(), of.allocations, 0, {}};
}

uint32_t phase() {
  const Lock lock;
  return heap().phase;
}

Held held() {
  const Lock lock;
  return heap().held;
}

std::vector<Block> blocks_since(uint32_t phase) {
  const Lock lock;
  std::vector<Block> found;
  found.reserve(heap().blocks.size());
  for (const auto& one : heap().blocks) {
    if (one.second.phase >= phase && !one.second.is_away) {
      found.push_back(one.second);
    }
  }
  return found;
}

Peak peak() {
  const Lock lock;
  const Mark& mark = heap().peak;
  Peak found{mark.bytes, mark.place, {}};
  found.blocks.reserve(mark.gone.size() + heap().blocks.size());
  found.blocks.assign(mark.gone.begin(), mark.gone.end());
  for (const auto& one : heap().blocks) {
    if (one.second.born <= mark.allocation && !one.second.is_away) {
      found.blocks.push_back(one.second);
    }
  }
  return found;
}

void name(const void* data, uint32_t tensor) {
  const Lock lock;
  Block* const block = heap().around(data);
  if (block != nullptr && block->tensor == 0) {
    block->tensor = tensor;
  }
}

bool is_named(const void* data) {
  const Lock lock;
  const Block* const block = heap().around(data);
  return block == nullptr || block->tensor != 0;
}

} // namespace memory

// ---- In place of the C library's ----

#pragma GCC visibility push(default) // for the library to find them

extern "C" {

void* malloc(size_t size) {
  const memory::Real* const real = memory::real();
  if (real == nullptr) {
    return memory::allocate_early(size);
  }
  void* const data = real->malloc(size);
  memory::add(data, size);
  return data;
}

void free(void* data) {
  if (data == nullptr || memory::is_early(data)) {
    return;
  }
  memory::remove(data);
  memory::real()->free(data);
}

void* calloc(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  void* const data = malloc(bytes); // what `allocate_early` has is zero
  if (data != nullptr) {
    std::memset(data, 0, bytes);
  }
  return data;
}

void* realloc(void* data, size_t size) {
  if (data == nullptr) {
    return malloc(size);
  }
  if (memory::is_early(data)) {
    void* const other = malloc(size);
    const size_t least = size_t(memory::early + sizeof memory::early - static_cast<char*>(data));
    return other == nullptr ? nullptr : std::memcpy(other, data, size < least ? size : least);
  }
  void* const other = memory::real()->realloc(data, size);
  if (other != nullptr || size == 0) {
    memory::remove(data);
    memory::add(other, size);
  }
  return other;
}

// musl's posix_memalign calls this by name.
void* aligned_alloc(size_t alignment, size_t size) {
  void* const data = memory::real()->aligned_alloc(alignment, size);
  memory::add(data, size);
  return data;
}

int posix_memalign(void** data, size_t alignment, size_t size) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) {
    return EINVAL;
  }
  void* const aligned = aligned_alloc(alignment, size);
  if (aligned == nullptr) {
    return ENOMEM;
  }
  *data = aligned;
  return 0;
}

void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }

// By their names for the linker: headers may have the one stand for the other.
void* map_pages(void* where, size_t size, int access, int flags, int file, off_t offset) __asm__("mmap");
void* map_pages_64(void* where, size_t size, int access, int flags, int file, off_t offset)
    __asm__("mmap64");

void* map_pages(void* where, size_t size, int access, int flags, int file, off_t offset) {
  void* const data = memory::real()->mmap(where, size, access, flags, file, offset);
  if (data != MAP_FAILED) {
    if ((flags & MAP_FIXED) != 0) {
      memory::map_over(data, access);
    } else {
      memory::add(data, size, true);
    }
  }
  return data;
}

void* map_pages_64(void* where, size_t size, int access, int flags, int file, off_t offset) {
  return map_pages(where, size, access, flags, file, offset);
}

int munmap(void* data, size_t size) {
  memory::remove(data);
  return memory::real()->munmap(data, size);
}

} // extern "C"

#pragma GCC visibility pop
