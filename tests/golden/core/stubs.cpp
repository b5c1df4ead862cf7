// Functions that the selection cannot reach, each a stub that raises an error that names itself.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#if defined(__APPLE__)
#define LTA_SYMBOL(name) "_" name
#else
#define LTA_SYMBOL(name) name
#endif

// the inline namespace of the NDK's libc++
#if defined(__ANDROID__)
#define LTA_STD "St6__ndk1"
#else
#define LTA_STD "St3__1"
#endif

namespace {

[[noreturn]] void left_out(const char* symbol) {
  throw c10::Error(
      {"left_out", "stubs.cpp", 0},
      std::string(symbol) + " was left out of this library: its models never called it");
}

} // namespace

extern "C" {
__attribute__((visibility("hidden"))) void lta_stub_1() __asm__(LTA_SYMBOL("_ZN2at11QTensorImplC1ENS_6TensorE"));
void lta_stub_1() {
  left_out("_ZN2at11QTensorImplC1ENS_6TensorE");
}
__attribute__((visibility("hidden"))) void lta_stub_2() __asm__(LTA_SYMBOL("_ZN2at11QTensorImplC2ENS_6TensorE"));
void lta_stub_2() {
  left_out("_ZN2at11QTensorImplC2ENS_6TensorE");
}
#if defined(__GLIBCXX__)
__attribute__((visibility("hidden"))) void lta_stub_3() __asm__(LTA_SYMBOL("_ZN2at4keptESt8optionalIlE"));
#else
__attribute__((visibility("hidden"))) void lta_stub_3() __asm__(LTA_SYMBOL("_ZN2at4keptEN" LTA_STD "8optionalIlEE"));
#endif
void lta_stub_3() {
  left_out("_ZN2at4keptENSt3__18optionalIlEE");
}
__attribute__((visibility("hidden"))) void lta_stub_4() __asm__(LTA_SYMBOL("_ZN2at4nameEv"));
void lta_stub_4() {
  left_out("_ZN2at4nameEv");
}
// what is `long` on 64-bit Linux
#if defined(__APPLE__) || !defined(__LP64__)
#if defined(__GLIBCXX__)
__attribute__((visibility("hidden"))) void lta_stub_5() __asm__(LTA_SYMBOL("_ZN2at4keptESt8optionalIxE"));
#else
__attribute__((visibility("hidden"))) void lta_stub_5() __asm__(LTA_SYMBOL("_ZN2at4keptEN" LTA_STD "8optionalIxEE"));
#endif
void lta_stub_5() {
  left_out("_ZN2at4keptENSt3__18optionalIxEE");
}
#endif
}
