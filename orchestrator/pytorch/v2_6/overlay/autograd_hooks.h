// What a tensor asks autograd for, where there is no autograd: as runtime_library/autograd_hooks.h, with
// the one question that PyTorch 2 has more. Nothing asks it in mobile builds, where operators without
// a kernel for autograd fall through (ATen/core/VariableFallbackKernel.cpp).
#pragma once

#include <ATen/core/VariableHooksInterface.h>
#include <c10/util/Exception.h>

namespace at {
namespace impl {

struct AnsweringHooksInterface : VariableHooksInterface {
  void basic_autograd_not_implemented_fallback(
      const c10::OperatorHandle&,
      c10::DispatchKeySet,
      torch::jit::Stack*) const override {
    throw c10::Error({"", "autograd", 0}, "this library is for inference: it has no autograd");
  }
};

} // namespace impl
} // namespace at

#define VariableHooksInterface AnsweringHooksInterface
#include "runtime_library/autograd_hooks.h"
#undef VariableHooksInterface
