// What a library takes of memory, block by block, without any help of its own.
//
// Meaning: this program defines malloc and its relatives, and mmap, before the C library does. A
// delivered library imports them, so it allocates here: tensors, weights, what kernels pack, what it
// keeps for itself. Each block remembers who asked for it. Of the program's own blocks nothing is
// counted: counting is on only while the library works.
//
// Bytes are those that were asked for, of mapped memory whole pages as they were asked for. What the C
// library adds to each block, and free memory that it keeps, is not among them, nor are threads' stacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace memory {

// Whoever asked: a number that `at` was told, 0 where it was told none.
using Place = uint32_t;

struct Block {
  size_t bytes;
  uint64_t born;   // the number of its allocation
  uint32_t phase;  // in which `begin` began
  Place place;
  uint32_t tensor; // a number that `name` was told, 0 for none
  bool is_mapped;
  bool is_away;    // its pages were given back (capi/model_memory.h)
};

struct Held {
  size_t heap = 0;
  size_t mapped = 0;
  size_t all() const { return heap + mapped; }
};

struct Peak {
  size_t bytes = 0;
  Place place = 0;
  std::vector<Block> blocks; // all that there were at that moment
};

// Whether what is allocated from now on is counted; true from the start.
void count(bool on);
// Says who asks from now on; returns who did before.
Place at(Place place);
// Begins the next phase: its peak is what there is now.
void begin();
uint32_t phase();
Held held();
// Says which tensor the block around an address has; the first one stays.
void name(const void* data, uint32_t tensor);
bool is_named(const void* data);

// While nothing is counted:
// the most at once since `begin`,
Peak peak();
// and the blocks of a phase and of later ones.
std::vector<Block> blocks_since(uint32_t phase);

} // namespace memory
