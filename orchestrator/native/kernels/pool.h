// Work on the library's threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pthreadpool.h>

namespace lta {

// Multiplications that are worth the library's threads: 50 microseconds of a kernel's work. Waking
// them takes about 100, but they stay awake for 200 after a region (native/threads/pool.cpp).
constexpr double kWorthThreads = 2e6;

// Where so many multiplications are computed: on the caller's thread (NULL), or on all that the
// library has. An operator of XNNPACK is shaped for the pool that it runs on.
inline pthreadpool_t pool_for(double work) {
  return work < kWorthThreads ? nullptr : pthreadpool_create(0);
}

// How many ranges `for_ranges` makes of so many items.
inline int64_t count_ranges(pthreadpool_t pool, int64_t items) {
  return std::min(items, int64_t(pthreadpool_get_threads_count(pool)));
}

// Calls run(range, first, last) for a range of the items on each thread, none of them empty. It throws
// nothing: the process ends where it does, on whichever thread. A region that is left by an exception
// would be gone while workers are in it (threads/pool.h).
template <typename Run>
void for_ranges(pthreadpool_t pool, int64_t items, const Run& run) {
  struct Ranges {
    const Run& run;
    int64_t items, count;
  };
  Ranges all{run, items, count_ranges(pool, items)};
  pthreadpool_parallelize_1d(
      pool,
      [](void* given, size_t index) noexcept {
        const Ranges& all = *static_cast<const Ranges*>(given);
        const int64_t range = int64_t(index);
        all.run(range, all.items * range / all.count, all.items * (range + 1) / all.count);
      },
      &all, size_t(all.count), 0);
}

} // namespace lta
