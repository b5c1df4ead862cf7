// Read first by aten/src/ATen/native/Convolution.cpp: on arm64 it takes the kernel for depthwise 3x3
// convolutions that PyTorch has for NEON (neon_depthwise.h).
//
// PyTorch asks for `__ARM_NEON__`, which clang defines for arm64 on Apple's systems alone. Only for
// these units: in the quantised ones the macro stands for ARMv7, whose code is the worse one here.
#pragma once

#if defined(__aarch64__) && !defined(__ARM_NEON__)
#define __ARM_NEON__ 1
#endif
