// Forks wait for calls that are under way, so that a child can use the library.
//
// Meaning: a child of fork has its parent's memory and one thread. A lock that another thread held stays
// locked for ever there: PyTorch's tables of symbols and operators, that of its allocator, a static that
// was being made. So a fork waits until no other thread is in a call that loads, runs, frees or looks up
// operators, and such calls wait until it is done.
//
// Not for ever: a call may wait for what the forking thread holds (a deleter of lta_tensor_borrow, an
// operator of the app's own). After kForkSeconds the process forks as it is.
//
// Read by capi.cpp alone. Apps of Android and iOS do not fork.
#pragma once

#include <atomic>

#include <pthread.h>
#include <time.h>

#if defined(__GLIBC__)
extern "C" {
int __register_atfork(void (*before)(void), void (*after)(void), void (*in_child)(void), void* library);
extern __attribute__((visibility("hidden"))) void* __dso_handle;
}
#endif

namespace lta {

constexpr long kForkSeconds = 10;

std::atomic<int> calls_inside{0}; // of all threads; a call in a call counts once
std::atomic<int> forks_waiting{0};
__thread int call_depth = 0;

inline void wait_a_moment() {
  const timespec moment = {0, 100 * 1000};
  nanosleep(&moment, nullptr);
}

__attribute__((noinline)) void wait_for_forks() {
  do {
    calls_inside.fetch_sub(1);
    while (forks_waiting.load() != 0) {
      wait_a_moment();
    }
    calls_inside.fetch_add(1);
  } while (forks_waiting.load() != 0);
}

// Around what takes PyTorch's locks.
struct Call {
  Call() {
    if (call_depth++ == 0) {
      calls_inside.fetch_add(1);
      if (forks_waiting.load() != 0) {
        wait_for_forks();
      }
    }
  }
  ~Call() {
    if (--call_depth == 0) {
      calls_inside.fetch_sub(1);
    }
  }
  Call(const Call&) = delete;
};

#if defined(__linux__) && !defined(__ANDROID__)

// The calls of the thread that forks: it is in one where an operator forks, or a signal's handler.
inline int own_calls() { return call_depth != 0 ? 1 : 0; }

void before_fork() {
  forks_waiting.fetch_add(1);
  timespec now, end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += kForkSeconds;
  while (calls_inside.load() > own_calls()) {
    wait_a_moment();
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec)) {
      break;
    }
  }
}

void after_fork() { forks_waiting.fetch_sub(1); }

void in_child() {
  forks_waiting.store(0);
  calls_inside.store(own_calls());
}

#if defined(__GLIBC__)
// What glibc's pthread_atfork calls. That function is linked into each library; the one that libc.so
// exports is for programs of long ago, and keeps the handlers of a library that is unloaded.
const int fork_handlers = __register_atfork(before_fork, after_fork, in_child, &__dso_handle);
#else
const int fork_handlers = pthread_atfork(before_fork, after_fork, in_child);
#endif

#endif

} // namespace lta
