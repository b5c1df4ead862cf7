/* The floating-point mode of the thread that calls. */
#if defined(__x86_64__)
#include <immintrin.h>
void flush_to_zero(int on) { _mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u); }
#elif defined(__aarch64__)
void flush_to_zero(int on) {
  unsigned long mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  mode = on ? mode | 1ul << 24 : mode & ~(1ul << 24);
  __asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#endif
