/* Stands in for cpuinfo's header, as native/stubs/cpuinfo.h: what PyTorch 2's own units ask for besides.
 *
 * Each answer is "no", or that nothing is known of this machine.
 */
#ifndef CPUINFO_STUB_2_H
#define CPUINFO_STUB_2_H

#include_next <cpuinfo.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ATen/cpu/Utils.cpp */
struct cpuinfo_cache {
  uint32_t size;
};
struct cpuinfo_processor {
  struct {
    const struct cpuinfo_cache* l1d;
    const struct cpuinfo_cache* l2;
  } cache;
};
static inline const struct cpuinfo_processor* cpuinfo_get_processors(void) { return NULL; }
static inline bool cpuinfo_has_x86_avx512f(void) { return false; }
static inline bool cpuinfo_has_x86_avx512bf16(void) { return false; }
static inline bool cpuinfo_has_x86_avx512fp16(void) { return false; }
static inline bool cpuinfo_has_x86_amx_tile(void) { return false; }
static inline bool cpuinfo_has_x86_amx_fp16(void) { return false; }

/* DispatchStub.cpp, Utils.cpp, arm64 */
static inline bool cpuinfo_has_arm_sve(void) { return false; }
static inline uint32_t cpuinfo_get_max_arm_sve_length(void) { return 0; }

/* ReducedPrecisionFloatGemvFastPathKernel.cpp, arm64 */
static inline bool cpuinfo_has_arm_neon_fp16_arith(void) { return false; }
static inline bool cpuinfo_has_arm_fp16_arith(void) { return false; }

/* mkldnn/Utils.h, arm64 */
enum cpuinfo_uarch {
  cpuinfo_uarch_unknown = 0,
  cpuinfo_uarch_neoverse_n1,
  cpuinfo_uarch_neoverse_n2,
  cpuinfo_uarch_neoverse_v1,
  cpuinfo_uarch_neoverse_v2
};
struct cpuinfo_uarch_info {
  enum cpuinfo_uarch uarch;
};
static inline uint32_t cpuinfo_get_uarchs_count(void) { return 0; }
static inline const struct cpuinfo_uarch_info* cpuinfo_get_uarch(uint32_t index) { return NULL; }

/* CPUBlas.cpp, with oneDNN */
static inline bool cpuinfo_has_x86_f16c(void) { return false; }

/* c10/core/thread_pool.cpp */
static inline uint32_t cpuinfo_get_cores_count(void) { return 0; }
static inline uint32_t cpuinfo_get_processors_count(void) { return 0; }

#ifdef __cplusplus
}
#endif
#endif /* CPUINFO_STUB_2_H */
