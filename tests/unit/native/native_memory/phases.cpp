// What a program allocates in phases, and what heap.h says of it: a line for each.
#include "memory/heap.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <sys/mman.h>

namespace {

size_t before = 0;

void begin() {
  before = memory::held().all();
  memory::begin();
  memory::count(true);
}

// The peak besides what there was, who reached it, and the sizes of this phase's blocks by then.
void tell(const char* what) {
  memory::count(false);
  memory::Peak peak = memory::peak();
  std::printf("%s: %zu by %u:", what, peak.bytes - before, peak.place);
  std::sort(peak.blocks.begin(), peak.blocks.end(),
            [](const memory::Block& one, const memory::Block& other) { return one.born < other.born; });
  for (const memory::Block& block : peak.blocks) {
    if (block.phase == memory::phase()) {
      std::printf(" %zu/%u", block.bytes, block.tensor);
    }
  }
  std::printf("; left %ld\n", long(memory::held().all()) - long(before));
}

void* map(void* at, size_t size, int access) {
  return mmap(at, size, access, MAP_PRIVATE | MAP_ANONYMOUS | (at == nullptr ? 0 : MAP_FIXED), -1, 0);
}

} // namespace

int main() {
  memory::count(false);

  begin();
  void* const first = malloc(1000);
  memory::at(3);
  void* second = malloc(5000);
  memory::name(static_cast<char*>(second) + 100, 7);
  memory::name(second, 8); // the first name stays
  memory::at(0);
  free(second);
  void* const third = malloc(100);
  tell("what was freed was at the peak");

  begin();
  free(first); // of an earlier phase
  tell("an earlier phase's is not left");
  free(third);

  begin();
  void* block = calloc(10, 20);
  block = realloc(block, 300);
  void* aligned = nullptr;
  if (posix_memalign(&aligned, 64, 4000) != 0 || uintptr_t(aligned) % 64 != 0) {
    return 1;
  }
  void* const other = aligned_alloc(128, 256);
  tell("relatives of malloc");
  free(block);
  free(aligned);
  free(other);

  begin();
  void* const pages = map(nullptr, 1 << 16, PROT_READ | PROT_WRITE);
  void* const packed = malloc(1000);
  map(pages, 1 << 16, PROT_NONE);
  map(pages, 1 << 16, PROT_NONE);
  void* const more = malloc(50000);
  tell("pages that leave are not there");
  free(more);
  begin();
  map(pages, 1 << 16, PROT_READ | PROT_WRITE);
  tell("and are when they come back");
  munmap(pages, 1 << 16);
  free(packed);

  begin();
  void* const small = malloc(700);
  void* large = malloc(4 << 20);
  free(large);
  tell("what was never touched was never there");
  free(small);

  begin();
  large = malloc(4 << 20);
  std::memset(large, 1, 4 << 20);
  free(large);
  tell("what was touched was");

  begin();
  std::thread([] {
    memory::at(5);
    free(malloc(3000));
  }).join();
  const memory::Place asked = memory::at(0);
  memory::count(false);
  std::printf("a thread's is counted: %d by %u\n", memory::peak().bytes - before >= 3000, asked);

  void* const uncounted = malloc(9000);
  begin();
  free(uncounted);
  tell("of what was not counted nothing is");
  return 0;
}
