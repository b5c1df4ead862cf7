// What ATen's parallel regions ask for, by the library's own threads.
//
// Meaning: only aten/src/ATen/ParallelOpenMP.cpp is compiled with `-include` of this file, in a variant
// with threads. It defines what that unit does, the rest of which stays as it is: what it says of the
// number of threads gets other names, and nothing refers to them.
//
// Trap: the macros are defined after all headers that declare these functions.
#pragma once

#include "at_parallel.h"

#include <ATen/Config.h>
#include <ATen/core/jit_type.h>
#include <ATen/Parallel.h>
#include <ATen/ParallelFuture.h>
#include <caffe2/utils/threadpool/pthreadpool-cpp.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "pool.h"

namespace at {

void serial_set_num_threads(int); // called before it is defined

void init_num_threads() {}
// A kernel that sets the number would set it for all that run.
void set_num_threads(int) {}
int get_num_threads() { return lta::threads(); }
bool in_parallel_region() { return lta::in_region(); }

namespace internal {
namespace {

struct Chunks {
  int64_t begin, end, size;
  Chunk chunk;
  const void* of;
  int failed = -1; // the lowest slot that raised
  std::exception_ptr raised;
  std::atomic_flag writing = ATOMIC_FLAG_INIT;
};

void keep_exception(Chunks& chunks, int slot) {
  while (chunks.writing.test_and_set(std::memory_order_acquire)) {
  }
  const int before = chunks.failed;
  if (before < 0 || slot < before) {
    chunks.failed = slot;
    chunks.raised = std::current_exception();
  }
  chunks.writing.clear(std::memory_order_release);
}

void run_chunk(void* of, int slot) {
  auto& chunks = *static_cast<Chunks*>(of);
  const int64_t from = chunks.begin + slot * chunks.size;
  if (from >= chunks.end) {
    return;
  }
  try {
    ThreadIdGuard guard(slot);
    chunks.chunk(chunks.of, from, std::min(chunks.end, from + chunks.size));
  } catch (...) {
    keep_exception(chunks, slot);
  }
}

} // namespace

void invoke_chunks(int64_t begin, int64_t end, int64_t grain, Chunk chunk, const void* of) {
  int64_t count = lta::threads();
  if (grain > 0) {
    count = std::min(count, divup(end - begin, grain));
  }
  Chunks chunks{begin, end, divup(end - begin, count), chunk, of};
  lta::share(int(count), run_chunk, &chunks);
  if (chunks.raised) {
    std::rethrow_exception(chunks.raised);
  }
}

} // namespace internal
} // namespace at

#define init_num_threads serial_init_num_threads
#define set_num_threads serial_set_num_threads
#define get_num_threads serial_get_num_threads
#define in_parallel_region serial_in_parallel_region
