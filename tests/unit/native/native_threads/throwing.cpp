// A task of `for_ranges` raises on the caller's thread, while a worker is in the same region.
#include <kernels/pool.h>

#include <threads/pool.cpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <thread>

// All that this needs of pthreadpool.
extern "C" {
size_t pthreadpool_get_threads_count(pthreadpool_t) { return 2; }
pthreadpool_t pthreadpool_create(size_t) { return nullptr; }
void pthreadpool_parallelize_1d(pthreadpool_t, pthreadpool_task_1d_t task, void* of, size_t count,
                                uint32_t) {
  struct Given {
    pthreadpool_task_1d_t task;
    void* of;
  } given{task, of};
  lta::share(
      int(count),
      [](void* of, int slot) {
        const auto& given = *static_cast<Given*>(of);
        given.task(given.of, size_t(slot));
      },
      &given);
}
}

int main() {
  lta::begin_run();
  std::atomic<int> begun{0};
  const auto caller = std::this_thread::get_id();
  try {
    lta::for_ranges(nullptr, 2, [&](int64_t, int64_t, int64_t) {
      // neither range ends before both have begun
      ++begun;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (begun != 2 && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      if (std::this_thread::get_id() == caller) {
        throw std::runtime_error("a task");
      }
    });
  } catch (const std::runtime_error&) {
    std::puts("the region was left");
  }
  lta::end_run();
}
