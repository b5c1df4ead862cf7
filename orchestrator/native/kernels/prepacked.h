// The objects that models of `torch.utils.mobile_optimizer.optimize_for_mobile` hold: a layer with
// its weights, as operators `prepacked::*` take it (upstream: ATen/native/xnnpack/OpContext.h).
//
// Upstream packs the weights when the object is made. Here a Site does, when it first runs; without
// one, PyTorch's own convolutions and products run on the weights as they are.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace lta {

enum class LayerKind : uint8_t { kLinear, kConvolution, kTransposed };

struct Layer : torch::CustomClassHolder {
  LayerKind kind = LayerKind::kLinear;
  // float, strided, on the CPU. A convolution's has 4 dimensions, in PyTorch's order.
  at::Tensor weight;
  at::Tensor bias; // a vector, or undefined
  // Of convolutions: two numbers each, none negative; but for padding above 0.
  std::vector<int64_t> stride, padding, output_padding, dilation;
  int64_t groups = 1;
  // Of the clamp that is part of the layer; infinite where it has none.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

// The layer in an object of one of the three classes; null for any other value.
inline const Layer* layer_in(const c10::IValue& value) {
  if (!value.isObject()) {
    return nullptr;
  }
  const auto& slots = value.toObjectRef().slots();
  if (slots.size() != 1 || !slots[0].isCapsule()) {
    return nullptr;
  }
  return dynamic_cast<const Layer*>(slots[0].toCapsule().get());
}

} // namespace lta
