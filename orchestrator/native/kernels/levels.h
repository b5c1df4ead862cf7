// Which level of our own kernels runs: as XNNPACK answers for its kernels.
#pragma once

#include <xnnpack/hardware-config.h>

#ifdef LTA_WITH_AVX512
#include "../libraries/cpuinfo.h"
#endif

namespace lta {

inline bool has_wide_lanes() {
#if defined(__x86_64__) && !defined(LTA_WITHOUT_AVX2)
  const xnn_hardware_config* config = xnn_init_hardware_config();
  return config != nullptr && config->use_x86_avx2 && config->use_x86_fma3;
#else
  return false;
#endif
}

#ifdef LTA_WITH_AVX512
// As XNNPACK's choice of kernels for floats (libraries/xnnpack_levels.h).
inline bool has_widest_lanes() {
  static const bool has = [] {
    const xnn_hardware_config* config = xnn_init_hardware_config();
    return config != nullptr && config->use_x86_avx512f && lta_cpu_computes_512_bits();
  }();
  return has;
}
#endif

} // namespace lta
