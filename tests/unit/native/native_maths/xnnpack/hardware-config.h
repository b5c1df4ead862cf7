// Stands in for XNNPACK's: the level is the test's to choose.
#pragma once

struct xnn_hardware_config {
  bool use_x86_avx2, use_x86_fma3, use_x86_avx512vnni, use_x86_avx512f;
};

inline xnn_hardware_config chosen = {};
inline const xnn_hardware_config* xnn_init_hardware_config() { return &chosen; }
