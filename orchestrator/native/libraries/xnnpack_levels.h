// Read first by XNNPACK's units in src/configs, which choose kernels by the processor; not by
// hardware-config.c, which fills in what is redefined here.
//
// The levels between the baseline and FMA3 are cut: a test of one of them is a constant, and the
// kernels in its branch have no reference left. The 32-bit ARM target has NEON, so that what is
// for processors without has none either, and nothing of ARMv8's 32-bit mode, whose kernels for
// 8-bit integers do not compile (neonv8). LTA_WITHOUT_AVX2: the library is without that level.
#pragma once

#include "cpuinfo.h"
#include "xnnpack/hardware-config.h"

#if XNN_ARCH_X86 || XNN_ARCH_X86_64
#define use_x86_ssse3 arch_flags * 0
#define use_x86_sse4_1 arch_flags * 0
#define use_x86_avx arch_flags * 0
// floats; what VNNI needs of it is hardware-config.c's
#define use_x86_avx512f use_x86_avx512f && lta_cpu_computes_512_bits()
#ifdef LTA_WITHOUT_AVX2
#define use_x86_f16c arch_flags * 0
#define use_x86_fma3 arch_flags * 0
#define use_x86_avx2 arch_flags * 0
#endif
#elif XNN_ARCH_ARM
#define use_arm_neon arch_flags * 0 + 1
#define use_arm_neon_v8 arch_flags * 0
#endif
