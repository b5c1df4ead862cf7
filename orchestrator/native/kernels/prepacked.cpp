// Operators `prepacked::*` and their classes `xnnpack.*`, with PyTorch's own kernels behind them.
//
// Upstream's own (ATen/native/xnnpack/RegisterOpContextClass.cpp) are 107 KB and written for the
// XNNPACK of 2022. Names, schemas and what a pickle holds are theirs. These here run everywhere: in
// tracers, at every CPU level, without XNNPACK; a Site takes a call's place where there is one
// (prepacked_convolution.cpp, prepacked_linear.cpp).
//
// What a pickle says is asked before it is used: a model may be damaged, or hostile.
#include "prepacked.h"

#include <algorithm>
#include <cmath>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/convolution_ops.h>
#include <ATen/ops/linear_ops.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/custom_class.h>
#include <torch/library.h>

namespace lta {
namespace {

using c10::IValue;
using Stack = std::vector<IValue>;

constexpr int64_t kMost = 1 << 20; // of a stride, a padding, a dilation

// The classes are told apart by the types of their objects.
template <LayerKind kind>
struct LayerOf final : Layer {};

bool is_weight(const at::Tensor& tensor) {
  return tensor.defined() && tensor.scalar_type() == at::kFloat &&
      tensor.layout() == at::kStrided && tensor.device().is_cpu() && tensor.numel() > 0;
}

void read_weights(const IValue& weight, const IValue& bias, Layer* layer) {
  const int64_t dims = layer->kind == LayerKind::kLinear ? 2 : 4;
  TORCH_CHECK(weight.isTensor() && is_weight(weight.toTensor()) && weight.toTensor().dim() == dims,
              "a packed layer's weight is no float tensor of ", dims, " dimensions");
  layer->weight = weight.toTensor();
  if (!bias.isNone()) {
    TORCH_CHECK(bias.isTensor() && is_weight(bias.toTensor()) && bias.toTensor().dim() == 1,
                "a packed layer's bias is no vector of float");
    layer->bias = bias.toTensor();
  }
}

double read_limit(const IValue& value, double otherwise) {
  if (value.isNone()) {
    return otherwise;
  }
  TORCH_CHECK(value.isDouble() || value.isInt(), "a packed layer's limit is no number");
  return value.isDouble() ? value.toDouble() : double(value.toInt());
}

void read_limits(const IValue& least, const IValue& most, Layer* layer) {
  layer->least = read_limit(least, layer->least);
  layer->most = read_limit(most, layer->most);
  // as upstream; false for what is no number
  TORCH_CHECK(layer->least < layer->most, "a packed layer's limits have nothing between them");
}

std::vector<int64_t> read_pair(const IValue& value, int64_t least) {
  TORCH_CHECK(value.isIntList(), "a packed layer's geometry is no list of numbers");
  std::vector<int64_t> pair = value.toIntVector();
  if (pair.size() == 1) {
    pair.push_back(pair[0]);
  }
  TORCH_CHECK(pair.size() == 2 && std::min(pair[0], pair[1]) >= least &&
                  std::max(pair[0], pair[1]) <= kMost,
              "a packed layer's geometry is out of bounds");
  return pair;
}

// The values of a state, or of a call that packs: weight, bias, then for convolutions stride,
// padding, a transposed one's output_padding, dilation, groups; then the limits.
void read_layer(const IValue* values, size_t count, Layer* layer) {
  const bool is_linear = layer->kind == LayerKind::kLinear;
  const bool is_transposed = layer->kind == LayerKind::kTransposed;
  TORCH_CHECK(count == size_t(is_linear ? 4 : is_transposed ? 9 : 8),
              "a packed layer has not the parts of its class");
  read_weights(values[0], values[1], layer);
  read_limits(values[count - 2], values[count - 1], layer);
  int64_t out = layer->weight.size(0);
  if (!is_linear) {
    layer->stride = read_pair(values[2], 1);
    layer->padding = read_pair(values[3], 0);
    layer->output_padding =
        is_transposed ? read_pair(values[4], 0) : std::vector<int64_t>{0, 0};
    layer->dilation = read_pair(values[count - 4], 1);
    const IValue& groups = values[count - 3];
    TORCH_CHECK(groups.isInt() && groups.toInt() > 0 && layer->weight.size(0) % groups.toInt() == 0,
                "a packed layer's groups do not divide its channels");
    layer->groups = groups.toInt();
    out = is_transposed ? layer->weight.size(1) * layer->groups : out;
  }
  TORCH_CHECK(!layer->bias.defined() || layer->bias.size(0) == out,
              "a packed layer's bias has not a number for each channel");
}

// ---- Classes ----

template <LayerKind kind>
c10::intrusive_ptr<LayerOf<kind>> make_layer(const IValue* values, size_t count) {
  auto layer = c10::make_intrusive<LayerOf<kind>>();
  layer->kind = kind;
  read_layer(values, count, layer.get());
  return layer;
}

template <LayerKind kind>
void define_class(torch::Library& library, const char* name) {
  library.class_<LayerOf<kind>>(name).def("__setstate__", [](IValue self, IValue state) {
    TORCH_CHECK(self.isObject() && state.isTuple(), "a packed layer's state is no tuple");
    const auto& values = state.toTupleRef().elements();
    const std::vector<IValue> given(values.begin(), values.end());
    self.toObjectRef().setSlot(
        0, IValue::make_capsule(make_layer<kind>(given.data(), given.size())));
  });
}

TORCH_LIBRARY(xnnpack, library) {
  define_class<LayerKind::kLinear>(library, "LinearOpContext");
  define_class<LayerKind::kConvolution>(library, "Conv2dOpContext");
  define_class<LayerKind::kTransposed>(library, "TransposeConv2dOpContext");
}

// ---- Operators ----

// Numbers that are not negative, as operators of either PyTorch take them.
struct Sizes {
  at::IntArrayRef numbers;
  operator at::IntArrayRef() const { return numbers; }
  operator c10::SymIntArrayRef() const { return c10::fromIntArrayRefKnownNonNegative(numbers); }
};

at::Tensor compute(const Layer& layer, const at::Tensor& input) {
  c10::optional<at::Tensor> bias;
  if (layer.bias.defined()) {
    bias = layer.bias;
  }
  at::Tensor result = layer.kind == LayerKind::kLinear
      ? at::_ops::linear::call(input, layer.weight, bias)
      : at::_ops::convolution::call(input, layer.weight, bias, Sizes{layer.stride},
                                    Sizes{layer.padding}, Sizes{layer.dilation},
                                    layer.kind == LayerKind::kTransposed,
                                    Sizes{layer.output_padding}, layer.groups);
  c10::optional<at::Scalar> least, most;
  if (std::isfinite(layer.least)) {
    least = layer.least;
  }
  if (std::isfinite(layer.most)) {
    most = layer.most;
  }
  return least || most ? at::_ops::clamp::call(result, least, most) : result;
}

template <LayerKind kind>
void run(const c10::OperatorHandle&, Stack* stack) {
  TORCH_CHECK(stack->size() >= 2, "a packed layer takes an input and its weights");
  const IValue& input = stack->end()[-2];
  const Layer* layer = layer_in(stack->back());
  TORCH_CHECK(input.isTensor() && layer != nullptr && layer->kind == kind,
              "a packed layer takes an input and weights that were packed for it");
  at::Tensor result = compute(*layer, input.toTensor());
  stack->resize(stack->size() - 2);
  stack->emplace_back(std::move(result));
}

template <LayerKind kind>
void pack(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  TORCH_CHECK(stack->size() >= count, "a layer's weights and geometry are needed to pack it");
  auto layer = make_layer<kind>(stack->data() + (stack->size() - count), count);
  stack->resize(stack->size() - count);
  stack->emplace_back(std::move(layer));
}

template <LayerKind kind>
void define_operators(torch::Library& library, const char* packing, const char* running) {
  library.def(packing, torch::CppFunction::makeFromBoxedFunction<&pack<kind>>());
  library.def(running, torch::CppFunction::makeFromBoxedFunction<&run<kind>>());
}

TORCH_LIBRARY(prepacked, library) {
  define_operators<LayerKind::kLinear>(
      library,
      "linear_clamp_prepack(Tensor W, Tensor? B=None, Scalar? output_min=None, Scalar? "
      "output_max=None) -> __torch__.torch.classes.xnnpack.LinearOpContext",
      "linear_clamp_run(Tensor X, __torch__.torch.classes.xnnpack.LinearOpContext W_prepack) -> "
      "Tensor Y");
  define_operators<LayerKind::kConvolution>(
      library,
      "conv2d_clamp_prepack(Tensor W, Tensor? B, int[2] stride, int[2] padding, int[2] dilation, "
      "int groups, Scalar? output_min=None, Scalar? output_max=None) -> "
      "__torch__.torch.classes.xnnpack.Conv2dOpContext",
      "conv2d_clamp_run(Tensor X, __torch__.torch.classes.xnnpack.Conv2dOpContext W_prepack) -> "
      "Tensor Y");
  define_operators<LayerKind::kTransposed>(
      library,
      "conv2d_transpose_clamp_prepack(Tensor W, Tensor? B, int[2] stride, int[2] padding, int[2] "
      "output_padding, int[2] dilation, int groups, Scalar? output_min=None, Scalar? "
      "output_max=None) -> __torch__.torch.classes.xnnpack.TransposeConv2dOpContext",
      "conv2d_transpose_clamp_run(Tensor X, "
      "__torch__.torch.classes.xnnpack.TransposeConv2dOpContext W_prepack) -> Tensor Y");
}

} // namespace
} // namespace lta
