// Read first by QNNPACK's init.c: the kernels of the processor that it is compiled for, all of which
// it refers to, and what it asks cpuinfo for.
//
// On ARM upstream has some kernels in assembler. Here those in C take their names: they have the same
// tiles, which the packed weights depend on. Kernels for sparse weights are left out, as is what
// calls them (ATen/native/ao_sparse).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <cpuinfo.h>
#include <qnnpack/q8gemm_sparse.h>

#define cpuinfo_initialize() true
#define cpuinfo_deinitialize() ((void)0)

#include <u8lut32norm/scalar.c>
#include <x8lut/scalar.c>

#if CPUINFO_ARCH_X86_64

// of every such processor
#define cpuinfo_has_x86_sse2() true

#include <q8avgpool/mp8x9p8q-sse2.c>
#include <q8avgpool/up8x9-sse2.c>
#include <q8avgpool/up8xm-sse2.c>
#include <q8conv/4x4c2-sse2.c>
#include <q8dwconv/mp8x25-sse2.c>
#include <q8dwconv/mp8x25-sse2-per-channel.c>
#include <q8dwconv/mp8x27-sse2.c>
#include <q8dwconv/up8x9-sse2.c>
#include <q8dwconv/up8x9-sse2-per-channel.c>
#include <q8gavgpool/mp8x7p7q-sse2.c>
#include <q8gavgpool/up8x7-sse2.c>
#include <q8gavgpool/up8xm-sse2.c>
#include <q8gemm/4x4c2-dq-sse2.c>
#include <q8gemm/4x4c2-sse2.c>
#include <q8vadd/sse2.c>
#include <u8clamp/sse2.c>
#include <u8maxpool/16x9p8q-sse2.c>
#include <u8maxpool/sub16-sse2.c>
#include <u8rmax/sse2.c>
#include <x8zip/x2-sse2.c>
#include <x8zip/x3-sse2.c>
#include <x8zip/x4-sse2.c>
#include <x8zip/xm-sse2.c>

#define pytorch_q8gemm_dq_sparse_1x4_ukernel_8x4_packedA__sse2 NULL
#define pytorch_q8gemm_sparse_packA_ukernel_8x4__sse2 NULL

#elif CPUINFO_ARCH_ARM64 || CPUINFO_ARCH_ARM

// the targets' own baseline
#define cpuinfo_has_arm_neon() true

#include <q8avgpool/mp8x9p8q-neon.c>
#include <q8avgpool/up8x9-neon.c>
#include <q8avgpool/up8xm-neon.c>
#include <q8dwconv/mp8x25-neon.c>
#include <q8dwconv/mp8x25-neon-per-channel.c>
#include <q8dwconv/mp8x27-neon.c>
#include <q8dwconv/up8x9-neon.c>
#include <q8dwconv/up8x9-neon-per-channel.c>
#include <q8gavgpool/mp8x7p7q-neon.c>
#include <q8gavgpool/up8x7-neon.c>
#include <q8gavgpool/up8xm-neon.c>
#include <q8vadd/neon.c>
#include <u8clamp/neon.c>
#include <u8maxpool/16x9p8q-neon.c>
#include <u8maxpool/sub16-neon.c>
#include <u8rmax/neon.c>
#include <x8zip/x2-neon.c>
#include <x8zip/x3-neon.c>
#include <x8zip/x4-neon.c>
#include <x8zip/xm-neon.c>
#include <q8gemm/4x8-dq-neon.c>

#if CPUINFO_ARCH_ARM64

#include <q8conv/8x8-neon.c>
#include <q8gemm/8x8-neon.c>

// Eight rows by the kernel of four.
static void lta_q8gemm_dq_8x8(
    size_t mr,
    size_t nr,
    size_t k,
    const uint8_t* a,
    size_t a_stride,
    const void* w,
    const float* b,
    float* c,
    size_t c_stride,
    size_t output_channel_index,
    const struct pytorch_qnnp_conv_dynamic_quantization_params params[1]) {
  for (size_t row = 0; row < mr; row += 4) {
    pytorch_q8gemm_dq_ukernel_4x8__neon(
        mr - row < 4 ? mr - row : 4,
        nr,
        k,
        a + row * a_stride,
        a_stride,
        w,
        b,
        c + row * c_stride,
        c_stride,
        output_channel_index,
        params);
  }
}

#define pytorch_q8conv_ukernel_8x8__aarch64_neon pytorch_q8conv_ukernel_8x8__neon
#define pytorch_q8gemm_ukernel_8x8__aarch64_neon pytorch_q8gemm_ukernel_8x8__neon
#define pytorch_q8gemm_dq_ukernel_8x8__aarch64_neon lta_q8gemm_dq_8x8

#define pytorch_q8gemm_dq_sparse_1x4_ukernel_8x8_packedA__aarch64_neon NULL
#define pytorch_q8gemm_dq_sparse_8x1_ukernel_8x8_packedA__aarch64_neon NULL
#define pytorch_q8gemm_sparse_packA_ukernel_8x4__aarch64_neon NULL

#else

#include <q8conv/4x8-neon.c>
#include <q8gemm/4x-sumrows-neon.c>
#include <q8gemm/4x8-neon.c>

#define pytorch_q8conv_ukernel_4x8__aarch32_neon pytorch_q8conv_ukernel_4x8__neon
#define pytorch_q8dwconv_ukernel_up8x9__aarch32_neon pytorch_q8dwconv_ukernel_up8x9__neon
#define pytorch_q8dwconv_ukernel_up8x9_per_channel__aarch32_neon \
  pytorch_q8dwconv_ukernel_up8x9_per_channel__neon
#define pytorch_q8gemm_ukernel_4x8__aarch32_neon pytorch_q8gemm_ukernel_4x8__neon
#define pytorch_q8gemm_dq_ukernel_4x8__aarch32_neon pytorch_q8gemm_dq_ukernel_4x8__neon

#define pytorch_q8gemm_dq_sparse_1x4_ukernel_4x8_packedA__aarch32_neon NULL
#define pytorch_q8gemm_dq_sparse_8x1_ukernel_4x8_packedA__aarch32_neon NULL
#define pytorch_q8gemm_sparse_packA_ukernel_4x4__aarch32_neon NULL

#endif
#endif
