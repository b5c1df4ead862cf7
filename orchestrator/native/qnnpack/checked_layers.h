// Read first by PyTorch's units of int8 layers: asks whether an input has the sizes that QNNPACK takes
// for granted.
//
// Meaning: PyTorch rounds the size of a convolution's result towards 0. With a stride of 2, an image
// that lacks a pixel has a result of 1; QNNPACK counts places without a sign, and writes beyond its
// table of pointers, or frees it and uses it on. Of a dynamic linear layer's input nobody asks how wide
// it is, and the kernel reads as many weights.
//
// Trap: the macros name what is in scope where the units use them.
#pragma once

#include <ATen/ATen.h>
#include <ATen/native/quantized/cpu/QnnpackUtils.h>

#ifdef USE_PYTORCH_QNNPACK
namespace qnnpack {

template <typename... Others>
pytorch_qnnp_status checked_convolution(pytorch_qnnp_operator_t layer, void* weights, size_t batch,
                                        size_t depth, size_t height, size_t width,
                                        Others... others) {
  const auto fits = [](size_t size, size_t padding, size_t kernel, size_t dilation) {
    return size + 2 * padding > (kernel - 1) * dilation;
  };
  TORCH_CHECK(
      batch == 0 ||
          (fits(depth, layer->input_padding_depth, layer->kernel_depth, layer->dilation_depth) &&
           fits(height, layer->input_padding_height, layer->kernel_height, layer->dilation_height) &&
           fits(width, layer->input_padding_width, layer->kernel_width, layer->dilation_width)),
      "a kernel is larger than the padded image");
  return qnnpackConv(layer, weights, batch, depth, height, width, others...);
}

template <typename... Others>
pytorch_qnnp_status checked_linear(size_t expected, size_t rows, size_t columns, Others... others) {
  TORCH_CHECK(columns == expected, "a linear layer's input has another width than its weights");
  return qnnpackLinearDynamic(rows, columns, others...);
}

} // namespace qnnpack

#define qnnpackConv checked_convolution
#define qnnpackLinearDynamic(...) checked_linear(packB->getInputChannels(), __VA_ARGS__)
#endif
