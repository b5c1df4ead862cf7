// Read first by aten/src/ATen/EmptyTensor.cpp: as capi/checked_sizes.h, which takes C10_MOBILE away,
// behind the headers that this unit of PyTorch 2 includes besides.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#undef TORCH_ASSERT_NO_OPERATORS

#include "../../../native/capi/checked_sizes.h"
