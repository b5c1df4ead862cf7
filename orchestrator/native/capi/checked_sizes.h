// Read first by aten/src/ATen/EmptyTensor.cpp: a product of sizes that overflows is an error, as
// upstream has it everywhere but in mobile builds. Without it a tensor of 2^61 + 1 doubles gets 8
// bytes, and a kernel writes behind them.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/safe_numerics.h>
#undef TORCH_ASSERT_NO_OPERATORS

#include <limits>

// Of this unit's own text nothing else asks for it.
#undef C10_MOBILE
