// The library's threads compute as the caller of a region does: each line tells how both slots rounded
// and whether they kept numbers that are too small to be normal.
#include <threads/pool.cpp>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

// Flush-to-zero, of results and of operands.
void flush(bool to_zero) {
#if defined(__x86_64__)
  const unsigned bits = 0x8040, mode = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(to_zero ? mode | bits : mode & ~bits);
#elif defined(__aarch64__)
  unsigned long mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  const unsigned long bit = 1ul << 24;
  mode = to_zero ? mode | bit : mode & ~bit;
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
#endif
}

struct Both {
  std::atomic<int> begun{0};
  std::thread::id threads[2];
  bool kept[2], rounded_up[2];
};

// Neither slot ends before both have begun, so each is a thread's own.
void compute(void* of, int slot) {
  auto& both = *static_cast<Both*>(of);
  ++both.begun;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (both.begun != 2 && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
  volatile float small = 1e-38f, one = 1.0f, tiny = 1e-10f;
  both.threads[slot] = std::this_thread::get_id();
  both.kept[slot] = small * 0.1f != 0;
  both.rounded_up[slot] = one + tiny > 1;
}

void tell(bool to_zero, int rounding) {
  flush(to_zero);
  std::fesetround(rounding);
  Both both;
  lta::share(2, compute, &both);
  std::fesetround(FE_TONEAREST);
  flush(false);
  std::printf("%s threads: %d%d %d%d\n", both.threads[0] == both.threads[1] ? "equal" : "two",
              both.kept[0], both.kept[1], both.rounded_up[0], both.rounded_up[1]);
}

} // namespace

int main() {
  lta::begin_run();
  tell(/*to_zero=*/true, FE_TONEAREST); // starts the worker
  tell(false, FE_TONEAREST);
  tell(false, FE_UPWARD);
  tell(true, FE_UPWARD);
  tell(false, FE_TONEAREST);
  lta::end_run();
}
