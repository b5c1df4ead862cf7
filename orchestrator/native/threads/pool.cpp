// A library with threads. -DLTA_THREADS=<n>: how many a run uses unless it is told otherwise; 0: as
// many as the machine has cores for this process.
//
// LTA_THREADS in the environment takes the place of the machine's cores, and is the most where there
// is a number.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 // CPU_COUNT
#endif
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

namespace lta {
namespace {

// Between two shared layers of a model there is less than this: with 30 a worker was asleep for most.
constexpr int64_t kSpinNanoseconds = 200 * 1000;
// Kernels keep their rows in vectors of the heap; musl's own default is 128 kB.
constexpr size_t kStackBytes = 1 << 20;

// How this thread's floating-point operations round, trap and treat numbers that are too small to be
// normal. A thread inherits it from the one that starts it.
#if defined(__x86_64__) || defined(__i386__) && defined(__SSE__)
constexpr unsigned kRaised = 0x3f; // MXCSR: what has happened so far
unsigned long floating_point_mode() { return __builtin_ia32_stmxcsr() & ~kRaised; }
void set_floating_point_mode(unsigned long mode) { __builtin_ia32_ldmxcsr(unsigned(mode)); }
#elif defined(__aarch64__)
unsigned long floating_point_mode() {
  unsigned long mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
void set_floating_point_mode(unsigned long mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
#elif defined(__arm__) && defined(__ARM_FP)
constexpr unsigned long kRaised = 0xf800009f; // FPSCR: of comparisons, and what has happened so far
unsigned long floating_point_mode() {
  unsigned long mode;
  __asm__ volatile("vmrs %0, fpscr" : "=r"(mode));
  return mode & ~kRaised;
}
void set_floating_point_mode(unsigned long mode) { __asm__ volatile("vmsr fpscr, %0" : : "r"(mode)); }
#else
unsigned long floating_point_mode() { return 0; }
void set_floating_point_mode(unsigned long) {}
#endif

struct Region {
  Task task;
  void* of;
  int slots;
  int threads;        // of the caller's run
  unsigned long mode; // of the caller's floating-point operations
  int next;           // the first slot that nobody has taken
};

struct Pool {
  pthread_mutex_t lock;
  pthread_cond_t posted; // a region is there, or the workers shall end
  pthread_cond_t left;   // no worker is in the region any more
  pthread_cond_t freed;  // `taken` is false again
  Region* region;        // what workers may enter
  unsigned posts;        // how many regions there have been: what workers wait for
  int inside;            // workers in the region
  int asleep;            // workers that wait for `posted`
  int started;           // workers
  int most;              // workers that the system gives us
  bool taken;            // by a region, or by who ends the workers
  bool ending;
  pthread_t workers[kMostThreads - 1];
};

Pool pool;
// The process that the pool is of: 0 before it is made, negative while it is being made.
int owner;
int wanted; // 0: not asked for yet

__thread int run_depth;
__thread int run_threads;
__thread bool region_here;

int cores() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) {
    return CPU_COUNT(&set);
  }
#endif
  const long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? int(count < kMostThreads ? count : kMostThreads) : 1;
}

int threads_by_default() {
  const char* told = getenv("LTA_THREADS");
  long limit = told != nullptr ? strtol(told, nullptr, 10) : 0;
  if (limit < 1 || limit > kMostThreads) {
    limit = 0;
  }
  if (LTA_THREADS == 0) {
    return limit != 0 ? int(limit) : cores();
  }
  return limit != 0 && limit < LTA_THREADS ? int(limit) : LTA_THREADS;
}

// The pool of this process: a child of fork has a copy of its parent's, of which no worker is there
// and the lock may be anybody's.
void own_pool() {
  const int self = getpid();
  int seen = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
  while (seen != self) {
    if (seen == -self) {
      sched_yield();
      seen = __atomic_load_n(&owner, __ATOMIC_ACQUIRE);
    } else if (__atomic_compare_exchange_n(&owner, &seen, -self, false, __ATOMIC_ACQUIRE,
                                           __ATOMIC_ACQUIRE)) {
      pthread_mutex_init(&pool.lock, nullptr);
      pthread_cond_init(&pool.posted, nullptr);
      pthread_cond_init(&pool.left, nullptr);
      pthread_cond_init(&pool.freed, nullptr);
      pool.region = nullptr;
      pool.inside = pool.asleep = pool.started = 0;
      pool.most = kMostThreads - 1;
      pool.taken = pool.ending = false;
      __atomic_store_n(&owner, self, __ATOMIC_RELEASE);
      return;
    }
  }
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// Looks at a number for a short time, until it is another; without the lock.
template <class Number>
void spin_while(const Number& at, Number as) {
  const int64_t end = now() + kSpinNanoseconds;
  do {
    for (int i = 0; i < 32; ++i) {
      if (__atomic_load_n(&at, __ATOMIC_ACQUIRE) != as) {
        return;
      }
      relax();
    }
  } while (now() < end);
}

void work(Region& region) {
  const bool outer = region_here;
  region_here = true;
  for (;;) {
    const int slot = __atomic_fetch_add(&region.next, 1, __ATOMIC_RELAXED);
    if (slot >= region.slots) {
      break;
    }
    region.task(region.of, slot);
  }
  region_here = outer;
}

void* be_a_worker(void*) {
  pthread_mutex_lock(&pool.lock);
  unsigned seen = pool.posts - 1;
  for (;;) {
    if (!pool.ending && pool.posts == seen) {
      pthread_mutex_unlock(&pool.lock);
      spin_while(pool.posts, seen);
      pthread_mutex_lock(&pool.lock);
    }
    while (!pool.ending && pool.posts == seen) {
      ++pool.asleep;
      pthread_cond_wait(&pool.posted, &pool.lock);
      --pool.asleep;
    }
    if (pool.ending) {
      pthread_mutex_unlock(&pool.lock);
      return nullptr;
    }
    seen = pool.posts;
    Region* const region = pool.region;
    if (region == nullptr ||
        __atomic_load_n(&region->next, __ATOMIC_RELAXED) >= region->slots) {
      continue; // it was over before this thread woke
    }
    __atomic_store_n(&pool.inside, pool.inside + 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&pool.lock);
    run_threads = region->threads;
    set_floating_point_mode(region->mode);
    work(*region);
    pthread_mutex_lock(&pool.lock);
    __atomic_store_n(&pool.inside, pool.inside - 1, __ATOMIC_RELEASE);
    if (pool.inside == 0) {
      pthread_cond_signal(&pool.left);
    }
  }
}

// With the lock. Where the system gives no more threads, those that are there do.
void start_workers(int count) {
  if (pool.started >= count || pool.started >= pool.most) {
    return;
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // An app's handlers of signals run on its own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (pool.started < count && pool.started < pool.most) {
    if (pthread_create(&pool.workers[pool.started], &attributes, be_a_worker, nullptr) != 0) {
      pool.most = pool.started;
    } else {
      ++pool.started;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

// Posts a region to the workers; false where they are another's.
bool post(Region& region) {
  pthread_mutex_lock(&pool.lock);
  if (pool.taken || pool.ending) {
    pthread_mutex_unlock(&pool.lock);
    return false;
  }
  pool.taken = true;
  pool.region = &region;
  __atomic_store_n(&pool.posts, pool.posts + 1, __ATOMIC_RELEASE);
  const int others = region.slots - 1;
  start_workers(others);
  for (int awake = pool.started - pool.asleep; awake < others && awake < pool.started; ++awake) {
    pthread_cond_signal(&pool.posted);
  }
  pthread_mutex_unlock(&pool.lock);
  return true;
}

// No slot is left: waits for those that workers are in. Who has not entered yet stays out.
void close() {
  pthread_mutex_lock(&pool.lock);
  pool.region = nullptr;
  for (int inside; (inside = pool.inside) != 0;) {
    pthread_mutex_unlock(&pool.lock);
    spin_while(pool.inside, inside);
    pthread_mutex_lock(&pool.lock);
    if (pool.inside == inside) {
      pthread_cond_wait(&pool.left, &pool.lock);
    }
  }
  pool.taken = false;
  pthread_cond_broadcast(&pool.freed);
  pthread_mutex_unlock(&pool.lock);
}

// Ends and joins all workers. They are started again when there is work, unless it is for good.
void end_workers(bool for_good) {
  pthread_mutex_lock(&pool.lock);
  while (pool.taken) {
    pthread_cond_wait(&pool.freed, &pool.lock);
  }
  pool.taken = pool.ending = true;
  const int count = pool.started;
  pthread_cond_broadcast(&pool.posted);
  pthread_mutex_unlock(&pool.lock);
  for (int i = 0; i < count; ++i) {
    pthread_join(pool.workers[i], nullptr);
  }
  pthread_mutex_lock(&pool.lock);
  pool.started = 0;
  pool.most = kMostThreads - 1;
  pool.taken = pool.ending = for_good;
  pthread_cond_broadcast(&pool.freed);
  pthread_mutex_unlock(&pool.lock);
}

__attribute__((destructor)) void unload() {
  if (__atomic_load_n(&owner, __ATOMIC_ACQUIRE) == getpid() && !region_here) {
    end_workers(true);
  }
}

} // namespace

int wanted_threads() {
  int count = __atomic_load_n(&wanted, __ATOMIC_RELAXED);
  if (count == 0) {
    int none = 0;
    count = threads_by_default();
    if (!__atomic_compare_exchange_n(&wanted, &none, count, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED)) {
      count = none; // set meanwhile
    }
  }
  return count;
}

bool set_wanted_threads(int count) {
  if (count < 1 || count > kMostThreads) {
    return false;
  }
  const int before = __atomic_exchange_n(&wanted, count, __ATOMIC_RELAXED);
  // What there are too many of ends; in a region of this thread's own nothing can wait for it.
  if (count < before && !region_here &&
      __atomic_load_n(&owner, __ATOMIC_ACQUIRE) == getpid()) {
    end_workers(false);
  }
  return true;
}

void begin_run() {
  if (run_depth++ == 0) {
    run_threads = wanted_threads();
  }
}

void end_run() {
  if (--run_depth == 0) {
    run_threads = 0;
  }
}

int threads() { return run_threads > 1 ? run_threads : 1; }
bool in_region() { return region_here; }

void share(int slots, Task task, void* of) {
  Region region{task, of, slots, run_threads, floating_point_mode(), 0};
  bool posted = false;
  if (slots > 1 && !region_here) {
    own_pool();
    posted = post(region);
  }
  work(region);
  if (posted) {
    close();
  }
}

} // namespace lta
