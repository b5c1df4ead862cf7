// The library's threads under load: four threads of an app whose runs take the workers from each
// other, while a fifth sets how many there are, so that workers end and begin. Chunks write to plain
// memory, which their caller reads behind the region: ThreadSanitizer sees what is not in order.
#include <threads/parallel_unit.h>

#include <threads/pool.cpp>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int64_t kNumbers = 64;
std::atomic<bool> done{false};
std::atomic<int> wrong{0}, shared{0};

// Long enough for a worker to come.
int64_t counted_slowly(int64_t to) {
  volatile int64_t count = 0;
  while (count < to) {
    count = count + 1;
  }
  return count;
}

void run_often(int64_t first, int rounds) {
  std::vector<int64_t> found(kNumbers);
  const auto caller = std::this_thread::get_id();
  for (int round = 0; round < rounds; ++round) {
    lta::begin_run();
    for (int region = 0; region < 3; ++region) {
      at::internal::invoke_parallel(0, kNumbers, 1, [&](int64_t from, int64_t to) {
        shared += std::this_thread::get_id() != caller;
        for (int64_t i = from; i < to; ++i) {
          found[size_t(i)] += counted_slowly(100 * (first + i)) / 100;
        }
      });
    }
    lta::end_run();
  }
  for (int64_t i = 0; i < kNumbers; ++i) {
    wrong += found[size_t(i)] != 3 * rounds * (first + i);
  }
}

} // namespace

int main() {
  constexpr int kRounds = 300;
  std::thread setter([] {
    for (int count = 1; !done; count = count % 4 + 1) {
      lta::set_wanted_threads(count);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> callers;
  for (int64_t first = 0; first < 4; ++first) {
    callers.emplace_back(run_often, first, kRounds);
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  done = true;
  setter.join();
  std::printf("%d wrong, %s\n", wrong.load(), shared > 0 ? "shared" : "alone");
}
