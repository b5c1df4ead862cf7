// Read first by aten/src/ATen/EmptyTensor.cpp: as capi/checked_sizes.h, which takes C10_MOBILE away,
// behind the headers that this unit of PyTorch 2 includes besides. It asks at::Context which device
// pins memory: none does here, and the context with all of its hooks would be 4 KB of every library.
#pragma once

#define TORCH_ASSERT_NO_OPERATORS
#include <ATen/Context.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#undef TORCH_ASSERT_NO_OPERATORS

#include "capi/checked_sizes.h"

namespace at {
namespace {

struct NoDevices {
  static constexpr bool hasCUDA() {
    return false;
  }
  static constexpr bool hasHPU() {
    return false;
  }
  static constexpr bool hasMTIA() {
    return false;
  }
  static constexpr bool hasXPU() {
    return false;
  }
};

constexpr NoDevices no_devices() {
  return {};
}
constexpr bool no_hooks_registered() {
  return false;
}

} // namespace
} // namespace at

// In GetCPUAllocatorMaybePinned(), which ends in an error.
#define globalContext no_devices
#define isPrivateUse1HooksRegistered no_hooks_registered
