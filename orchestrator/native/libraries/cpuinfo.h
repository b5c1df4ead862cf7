// Stands in for the library cpuinfo in XNNPACK's units: what XNNPACK asks of it, answered here.
//
// The core is "unknown", as a constant, so that what is meant for single cores folds away. Which
// instructions may be used is asked of the processor, as far as kernels for them are compiled in.
// LTA_CPU_LEVEL in the environment names the last CPU level that may be used, in the order of the
// orchestrator's table, so that a machine runs what a lesser one would. `baseline` makes all absent
// that a processor may lack; a value that is no level of this processor's changes nothing. A level
// that is named is used wherever the processor has its instructions: `avx512` is not used otherwise
// where they pay too little.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cpuinfo_uarch {
  cpuinfo_uarch_unknown,
  cpuinfo_uarch_dhyana,
  cpuinfo_uarch_zen,
  cpuinfo_uarch_zen4,
  cpuinfo_uarch_cortex_a5,
  cpuinfo_uarch_cortex_a7,
  cpuinfo_uarch_cortex_a32,
  cpuinfo_uarch_cortex_a35,
  cpuinfo_uarch_cortex_a53,
  cpuinfo_uarch_cortex_a55,
  cpuinfo_uarch_cortex_a55r0,
  cpuinfo_uarch_cortex_a57,
  cpuinfo_uarch_cortex_a72,
  cpuinfo_uarch_cortex_a73,
  cpuinfo_uarch_cortex_a75,
  cpuinfo_uarch_cortex_a76,
  cpuinfo_uarch_cortex_a77,
  cpuinfo_uarch_cortex_a78,
  cpuinfo_uarch_cortex_a510,
  cpuinfo_uarch_cortex_a710,
  cpuinfo_uarch_cortex_a715,
  cpuinfo_uarch_cortex_x1,
  cpuinfo_uarch_cortex_x2,
  cpuinfo_uarch_cortex_x3,
  cpuinfo_uarch_neoverse_n1,
  cpuinfo_uarch_neoverse_n2,
  cpuinfo_uarch_neoverse_v1,
  cpuinfo_uarch_neoverse_v2,
  cpuinfo_uarch_krait,
  cpuinfo_uarch_kryo,
  cpuinfo_uarch_exynos_m1,
  cpuinfo_uarch_exynos_m2,
  cpuinfo_uarch_exynos_m3,
  cpuinfo_uarch_exynos_m4,
  cpuinfo_uarch_exynos_m5,
};

struct cpuinfo_core {
  enum cpuinfo_uarch uarch;
};
struct cpuinfo_uarch_info {
  enum cpuinfo_uarch uarch;
};

static const struct cpuinfo_core lta_cpu_core = {cpuinfo_uarch_unknown};
static const struct cpuinfo_uarch_info lta_cpu_uarch = {cpuinfo_uarch_unknown};

static inline bool cpuinfo_initialize(void) { return true; }
static inline const struct cpuinfo_core* cpuinfo_get_core(uint32_t index) {
  (void)index;
  return &lta_cpu_core;
}
static inline const struct cpuinfo_uarch_info* cpuinfo_get_uarch(uint32_t index) {
  (void)index;
  return &lta_cpu_uarch;
}
static inline uint32_t cpuinfo_get_uarchs_count(void) { return 1; }
static inline uint32_t cpuinfo_get_current_uarch_index(void) { return 0; }
static inline uint32_t cpuinfo_get_current_uarch_index_with_default(uint32_t other) {
  (void)other;
  return 0;
}

static inline bool lta_cpu_level_is(const char* name) {
  const char* level = getenv("LTA_CPU_LEVEL");
  return level != NULL && strcmp(level, name) == 0;
}
static inline bool lta_cpu_baseline(void) { return lta_cpu_level_is("baseline"); }

#define LTA_CPU_ALWAYS(name) \
  static inline bool cpuinfo_has_##name(void) { return true; }
#define LTA_CPU_NEVER(name) \
  static inline bool cpuinfo_has_##name(void) { return false; }

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

// Leaf 1, ECX; leaf 7, EBX (Intel SDM, volume 2, CPUID). The registers of AVX are of use only where
// the system saves them: XCR0, bits 1 and 2.
enum {
  lta_cpu_ssse3 = 1 << 9,
  lta_cpu_fma3 = 1 << 12,
  lta_cpu_sse4_1 = 1 << 19,
  lta_cpu_osxsave = 1 << 27,
  lta_cpu_avx = 1 << 28,
  lta_cpu_f16c = 1 << 29,
  lta_cpu_avx2 = 1 << 5,
  lta_cpu_avx512f = 1 << 16,
  lta_cpu_avx512dq = 1 << 17,
  lta_cpu_avx512bw = 1 << 30,
};
#define lta_cpu_avx512vl (1u << 31)

static inline unsigned lta_cpu_leaf_1(void) {
  unsigned a, b, c = 0, d;
  return !lta_cpu_baseline() && __get_cpuid(1, &a, &b, &c, &d) ? c : 0;
}
static inline unsigned lta_cpu_leaf_7(void) {
  unsigned a, b = 0, c, d;
  return !lta_cpu_baseline() && __get_cpuid_count(7, 0, &a, &b, &c, &d) ? b : 0;
}
static inline bool lta_cpu_saves_avx(void) {
  if (!(lta_cpu_leaf_1() & lta_cpu_osxsave)) {
    return false;
  }
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6;
}

LTA_CPU_ALWAYS(x86_sse2)
static inline bool cpuinfo_has_x86_ssse3(void) { return (lta_cpu_leaf_1() & lta_cpu_ssse3) != 0; }
static inline bool cpuinfo_has_x86_sse4_1(void) { return (lta_cpu_leaf_1() & lta_cpu_sse4_1) != 0; }
static inline bool cpuinfo_has_x86_avx(void) {
  return (lta_cpu_leaf_1() & lta_cpu_avx) && lta_cpu_saves_avx();
}
static inline bool cpuinfo_has_x86_f16c(void) {
  return (lta_cpu_leaf_1() & lta_cpu_f16c) && lta_cpu_saves_avx();
}
static inline bool cpuinfo_has_x86_fma3(void) {
  return (lta_cpu_leaf_1() & lta_cpu_fma3) && lta_cpu_saves_avx();
}
static inline bool cpuinfo_has_x86_avx2(void) {
  return (lta_cpu_leaf_7() & lta_cpu_avx2) && lta_cpu_saves_avx();
}

// The levels avxvnni, avx512 and avx512vnni, in this order. Leaf 7, 1, EAX; leaf 7, EBX and ECX. The
// registers of AVX-512: XCR0, bits 5 to 7.
static inline bool cpuinfo_has_x86_avxvnni(void) {
  unsigned a = 0, b, c, d;
  return !lta_cpu_baseline() && !lta_cpu_level_is("avx2") &&
      __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1 << 4) && lta_cpu_saves_avx();
}
static inline bool lta_cpu_saves_avx512(void) {
  if (!lta_cpu_saves_avx()) {
    return false;
  }
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 0xe0) == 0xe0;
}
static inline bool cpuinfo_has_x86_avx512f(void) {
  return !lta_cpu_level_is("avx2") && !lta_cpu_level_is("avxvnni") &&
      (lta_cpu_leaf_7() & lta_cpu_avx512f) && lta_cpu_saves_avx512();
}
// Whether the processor computes 512 bits at once, so that the level avx512 pays: one that computes
// halves takes up to twice as long where layers are thin (docs/decisions/0060). Hypervisors hide what
// AMD says of it (Fn8000_001A), so by model: AMD's Zen 5 but for small laptops (Strix Point, Krackan),
// Intel's servers since Ice Lake, which keep their clock.
static inline bool lta_cpu_computes_512_bits(void) {
  unsigned a = 0, b = 0, c, d;
  if (lta_cpu_level_is("avx512") || lta_cpu_level_is("avx512vnni")) {
    return true;
  }
  if (!__get_cpuid(0, &a, &b, &c, &d) || !__get_cpuid(1, &a, &c, &c, &d)) {
    return false;
  }
  const unsigned base = a >> 8 & 15, family = base == 15 ? 15 + (a >> 20 & 255) : base;
  const unsigned model = (a >> 12 & 0xf0) | (a >> 4 & 15);
  if (b == 0x68747541) { // "Auth", of AuthenticAMD
    return family == 0x1a && (model < 0x20 || model >> 4 == 4 || model >> 4 == 7);
  }
  return b == 0x756e6547 && family == 6 && // "Genu", of GenuineIntel
      (model == 0x6a || model == 0x6c || // Ice Lake
       model == 0x8f || model == 0xcf || // Sapphire Rapids, Emerald Rapids
       model == 0xad || model == 0xae); // Granite Rapids
}
static inline bool cpuinfo_has_x86_avx512vnni(void) {
  unsigned a, b, c = 0, d;
  return !lta_cpu_level_is("avx512") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1 << 11);
}
static inline bool cpuinfo_has_x86_avx512bw(void) {
  return (lta_cpu_leaf_7() & lta_cpu_avx512bw) != 0;
}
static inline bool cpuinfo_has_x86_avx512dq(void) {
  return (lta_cpu_leaf_7() & lta_cpu_avx512dq) != 0;
}
// XNNPACK takes these with the ones above as its level `avx512skx`, of which we link nothing but what
// goes with VNNI: a processor without has none of it.
static inline bool cpuinfo_has_x86_avx512vl(void) {
  return (lta_cpu_leaf_7() & lta_cpu_avx512vl) && cpuinfo_has_x86_avx512vnni();
}

#elif defined(__aarch64__)

// The level `dotprod`, where a library has it.
#if XNN_ENABLE_ARM_DOTPROD
#include <sys/auxv.h>

// asm/hwcap.h: HWCAP_ASIMDDP, of AT_HWCAP
static inline bool cpuinfo_has_arm_neon_dot(void) {
  return !lta_cpu_baseline() && (getauxval(16) & 1 << 20);
}
#else
LTA_CPU_NEVER(arm_neon_dot)
#endif
// Of every 64-bit ARM processor; what else there is has no kernels here.
LTA_CPU_ALWAYS(arm_vfpv3)
LTA_CPU_ALWAYS(arm_neon)
LTA_CPU_ALWAYS(arm_neon_fp16)
LTA_CPU_ALWAYS(arm_neon_fma)
LTA_CPU_ALWAYS(arm_neon_v8)
LTA_CPU_NEVER(arm_fp16_arith)
LTA_CPU_NEVER(arm_neon_fp16_arith)
LTA_CPU_NEVER(arm_neon_bf16)
LTA_CPU_NEVER(arm_i8mm)
LTA_CPU_NEVER(arm_sve)
LTA_CPU_NEVER(arm_sve2)
LTA_CPU_NEVER(arm_sme)
LTA_CPU_NEVER(arm_sme2)

#elif defined(__arm__)
#include <sys/auxv.h>

// asm/hwcap.h: of the process, whatever is said of the processor
enum {
  lta_cpu_hwcap = 16,   // AT_HWCAP
  lta_cpu_hwcap2 = 26,  // AT_HWCAP2
  lta_cpu_vfpv4 = 1 << 16,
  lta_cpu_aes = 1 << 0,  // in HWCAP2: only 64-bit processors have it
};

static inline bool cpuinfo_has_arm_neon_fma(void) {
  return !lta_cpu_baseline() && (getauxval(lta_cpu_hwcap) & lta_cpu_vfpv4);
}
static inline bool cpuinfo_has_arm_neon_v8(void) {
  return !lta_cpu_baseline() && (getauxval(lta_cpu_hwcap2) & lta_cpu_aes);
}
static inline bool cpuinfo_has_arm_neon_fp16(void) { return cpuinfo_has_arm_neon_fma(); }
// The target's own baseline: ARMv7-A with NEON.
LTA_CPU_ALWAYS(arm_v6)
LTA_CPU_ALWAYS(arm_vfpv2)
LTA_CPU_ALWAYS(arm_vfpv3)
LTA_CPU_ALWAYS(arm_neon)
LTA_CPU_NEVER(arm_fp16_arith)
LTA_CPU_NEVER(arm_neon_fp16_arith)
LTA_CPU_NEVER(arm_neon_bf16)
LTA_CPU_NEVER(arm_neon_dot)
#endif

#ifdef __cplusplus
}
#endif
