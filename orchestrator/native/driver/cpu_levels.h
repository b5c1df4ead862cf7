// The CPU levels that a library in this process may choose from: those that the processor has, up to
// the one that LTA_CPU_LEVEL names.
//
// The processor that runs this program is asked, whatever runs it, as the library's kernels ask it:
// by libraries/cpuinfo.h, put together as XNNPACK's hardware-config.c does. So an emulator's answers
// count, and that the variable arrived. Names and order are those of libraries/data/xnnpack.yaml.
#pragma once

// whatever levels the library has
#define XNN_ENABLE_ARM_DOTPROD 1
#include "../libraries/cpuinfo.h"

namespace driver {

struct CpuLevel {
  const char* name;
  bool (*usable)();
};

#if defined(__x86_64__)
inline bool has_avx2() {
  return cpuinfo_has_x86_avx2() && cpuinfo_has_x86_fma3() && cpuinfo_has_x86_f16c();
}
inline bool has_avxvnni() { return has_avx2() && cpuinfo_has_x86_avxvnni(); }
inline bool has_avx512() {
  return has_avx2() && cpuinfo_has_x86_avx512f() && lta_cpu_computes_512_bits();
}
inline bool has_avx512vnni() {
  return has_avx2() && cpuinfo_has_x86_avx512f() && cpuinfo_has_x86_avx512bw() && cpuinfo_has_x86_avx512dq() &&
      cpuinfo_has_x86_avx512vl() && cpuinfo_has_x86_avx512vnni();
}
const CpuLevel kCpuLevels[] = {{"avx2", has_avx2},
                               {"avxvnni", has_avxvnni},
                               {"avx512", has_avx512},
                               {"avx512vnni", has_avx512vnni}};
#elif defined(__aarch64__)
const CpuLevel kCpuLevels[] = {{"dotprod", cpuinfo_has_arm_neon_dot}};
#elif defined(__arm__)
const CpuLevel kCpuLevels[] = {{"vfpv4", cpuinfo_has_arm_neon_fma}};
#endif

} // namespace driver
