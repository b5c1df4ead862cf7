// The part of a tensor that autograd would use, where there is no autograd.
//
// Meaning: kernels ask a tensor for its forward gradient to choose a way (`max_pool1d`, `linear` with
// an input of four dimensions, `embedding_bag`, ...). c10/core/TensorImpl.cpp answers with what a
// factory makes, which torch/csrc/autograd/variable.cpp registers: a unit that brings all of autograd
// with its engine. This is that factory (`ConcreteAutogradMetaFactory`) alone, read first by a unit
// that every library links whole.
#pragma once

#include <memory>

#include <torch/csrc/autograd/variable.h>

namespace {

struct MetaFactory final : c10::impl::AutogradMetaFactory {
  std::unique_ptr<c10::AutogradMetaInterface> make() const override {
    return std::make_unique<torch::autograd::AutogradMeta>();
  }
  const at::Tensor& undefined_tensor() const override {
    static const at::Tensor none;
    return none;
  }
};

MetaFactory meta_factory;
const c10::impl::AutogradMetaFactoryRegisterer register_factory(&meta_factory);

} // namespace
