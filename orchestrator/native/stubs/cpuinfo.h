/* Stands in for cpuinfo's header, where the cpuinfo library is not part of a build.
 *
 * Meaning: cpuinfo_initialize() says that it could not look at the processor. PyTorch then takes
 * the DEFAULT kernels (aten/src/ATen/native/DispatchStub.cpp), which are the only ones that are
 * compiled, on every machine. So results and speed do not depend on the processor that it runs on.
 *
 * Trap: FlushDenormal.cpp and the mkldnn headers ask for features without initialising; each answer
 * is therefore "no". Declared is what PyTorch 1.13.1's own units ask for on x86-64 and arm64; the
 * units of XNNPACK, QNNPACK and a build with MKL need the real library.
 */
#ifndef CPUINFO_STUB_H
#define CPUINFO_STUB_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline bool cpuinfo_initialize(void) { return false; }

/* DispatchStub.cpp, x86-64 */
static inline bool cpuinfo_has_x86_avx2(void) { return false; }
static inline bool cpuinfo_has_x86_fma3(void) { return false; }
static inline bool cpuinfo_has_x86_avx512vl(void) { return false; }
static inline bool cpuinfo_has_x86_avx512bw(void) { return false; }
static inline bool cpuinfo_has_x86_avx512dq(void) { return false; }

/* FlushDenormal.cpp: denormals cannot be flushed, as far as PyTorch knows */
static inline bool cpuinfo_has_x86_daz(void) { return false; }

/* native/mkldnn/Utils.h and quantized/cpu/OnednnUtils.h */
static inline bool cpuinfo_has_x86_avx512vnni(void) { return false; }
static inline bool cpuinfo_has_arm_bf16(void) { return false; }

#ifdef __cplusplus
}
#endif
#endif /* CPUINFO_STUB_H */
