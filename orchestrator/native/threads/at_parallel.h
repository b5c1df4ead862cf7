// at::parallel_for and at::parallel_reduce on the library's own threads.
//
// Meaning: PyTorch is compiled for OpenMP without OpenMP (ATen/ParallelOpenMP.h), which is serial code
// in each caller. A variant with threads reads this first in the units that call them:
// ATen/Parallel-inl.h asks for `invoke_parallel` where INTRA_OP_PARALLEL is defined. All that is
// referred to besides is defined by the unit ATen/ParallelOpenMP.cpp (parallel_unit.h), which the
// serial code refers to as well.
#pragma once

#define INTRA_OP_PARALLEL

#include <cstdint>

namespace at {
namespace internal {

using Chunk = void (*)(const void* of, int64_t begin, int64_t end);

// As many chunks as there are threads, none smaller than the grain. The first one's exception is
// raised, whichever came first.
void invoke_chunks(int64_t begin, int64_t end, int64_t grain, Chunk chunk, const void* of);

template <class F>
inline void invoke_parallel(int64_t begin, int64_t end, int64_t grain, const F& f) {
  invoke_chunks(
      begin, end, grain,
      [](const void* of, int64_t from, int64_t to) { (*static_cast<const F*>(of))(from, to); },
      &f);
}

} // namespace internal
} // namespace at
