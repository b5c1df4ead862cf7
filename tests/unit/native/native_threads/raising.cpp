// The library's threads and ATen's parallel regions on them, where a chunk raises.
#include <threads/parallel_unit.h>

#include <threads/pool.cpp>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

// Two chunks, each in a thread of its own: neither returns before both have begun.
template <class F>
std::string raised_by(F f) {
  std::atomic<int> begun{0};
  try {
    at::internal::invoke_parallel(0, 2, 1, [&](int64_t from, int64_t) {
      ++begun;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (begun != 2 && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
      }
      f(from);
    });
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return begun == 2 ? "nothing" : "one thread alone";
}

} // namespace

int main() {
  lta::begin_run();
  const auto caller = std::this_thread::get_id();
  for (int i = 0; i < 200; ++i) {
    const std::string worker = raised_by([&](int64_t) {
      if (std::this_thread::get_id() != caller) {
        throw std::runtime_error("a worker");
      }
    });
    const std::string both =
        raised_by([](int64_t from) { throw std::runtime_error("chunk " + std::to_string(from)); });
    const std::string none = raised_by([](int64_t) {});
    if (worker != "a worker" || both != "chunk 0" || none != "nothing") {
      std::printf("%d: %s, %s, %s\n", i, worker.c_str(), both.c_str(), none.c_str());
      return 1;
    }
  }
  lta::end_run();
  std::puts("ok");
}
