// Stands in for cpuinfo's header in QNNPACK's units, and in PyTorch's that call it: which processor
// they are compiled for. It goes into structures that both read. What is asked of the processor
// when it runs is in kernels.h.
#pragma once

#include "../stubs/cpuinfo.h"

#if defined(__x86_64__)
#define CPUINFO_ARCH_X86_64 1
#elif defined(__aarch64__)
#define CPUINFO_ARCH_ARM64 1
#elif defined(__arm__)
#define CPUINFO_ARCH_ARM 1
#endif
