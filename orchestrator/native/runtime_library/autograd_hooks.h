// What a tensor asks autograd for, where there is no autograd.
//
// Meaning: `x.data`, `x.is_leaf`, `x.requires_grad_()` and others go through hooks that
// torch/csrc/autograd/variable.cpp registers (`VariableHooks`): a unit that brings all of autograd with
// its engine. These are the answers of a tensor that nobody differentiates. They are read first by
// the unit that hands the hooks out, which is in a library where something asks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/VariableHooksInterface.h>

namespace {

using at::TensorBase;

struct Hooks final : at::impl::VariableHooksInterface {
  TensorBase tensor_data(const TensorBase& self) const override {
    return variable_data(self);
  }
  TensorBase variable_data(const TensorBase& self) const override {
    auto copy = self.unsafeGetTensorImpl()->shallow_copy_and_detach(
        /*version_counter=*/0, /*allow_tensor_metadata_change=*/false);
    copy->set_autograd_meta(nullptr);
    return TensorBase(std::move(copy));
  }
  TensorBase data(const TensorBase& self) const override {
    return variable_data(self);
  }
  bool is_leaf(const TensorBase&) const override {
    return true;
  }
  bool is_view(const TensorBase&) const override {
    return false;
  }
  bool retains_grad(const TensorBase&) const override {
    return false;
  }
  int64_t output_nr(const TensorBase&) const override {
    return 0;
  }
  int64_t _version(const TensorBase& self) const override {
    return self.unsafeGetTensorImpl()->version_counter().current_version();
  }
  void requires_grad_(const TensorBase& self, bool requires_grad) const override {
    self.set_requires_grad(requires_grad);
  }

  const std::shared_ptr<torch::autograd::Node>& grad_fn(const TensorBase&) const override {
    refuse();
  }
  unsigned _register_hook(const TensorBase&, std::function<TensorBase(const TensorBase&)>)
      const override {
    refuse();
  }
  void remove_hook(const TensorBase&, unsigned) const override {
    refuse();
  }
  const TensorBase& base(const TensorBase&) const override {
    refuse();
  }
  const std::string& name(const TensorBase&) const override {
    refuse();
  }
  void set_data(const TensorBase&, const TensorBase&) const override {
    refuse();
  }
  void retain_grad(const TensorBase&) const override {
    refuse();
  }
  void _backward(
      const at::Tensor&,
      at::TensorList,
      const c10::optional<at::Tensor>&,
      c10::optional<bool>,
      bool) const override {
    refuse();
  }

 private:
  // No TORCH_CHECK: release libraries strip its text.
  [[noreturn]] static void refuse() {
    throw c10::Error({"", "autograd", 0}, "this library is for inference: it has no autograd");
  }
};

Hooks own_hooks;
const at::impl::VariableHooksRegisterer register_hooks(&own_hooks);

} // namespace
