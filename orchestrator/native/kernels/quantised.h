// Layers of 8-bit integers: QNNPACK's packed weights, computed by XNNPACK.
//
// PyTorch's activations are unsigned and its weights signed, with one scale or with one for each
// channel. XNNPACK has kernels for the latter with signed activations alone, and they are its
// fastest. So activations are shifted by 128, and their zero points with them: where one Site's result
// reaches only others, it stays shifted, as a tensor of c10::qint8. At the ends of such a chain the
// numbers are shifted as they are copied.
//
// Results are those of QNNPACK, bit by bit: both add in 32 bits, multiply by the same float and round
// to even.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/native/quantized/PackedParams.h>
#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/quantized/QTensorImpl.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/CPUAllocator.h>

#include "module_sites.h"
#include "xnnpack_operator.h"

namespace lta {

inline bool is_shifted(const at::Tensor& tensor) { return tensor.scalar_type() == at::kQInt8; }

// How a tensor is quantised. Asked of it, and not of PyTorch's operators: a library may be without
// those.
inline const at::Quantizer& quantiser_of(const at::Tensor& tensor) {
  return *static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl())->quantizer();
}

// Of a tensor with one scale: that, and the zero point of unsigned numbers.
inline double scale_of(const at::Tensor& tensor) {
  return static_cast<const at::PerTensorAffineQuantizer&>(quantiser_of(tensor)).scale();
}
inline int64_t zero_of(const at::Tensor& tensor) {
  return static_cast<const at::PerTensorAffineQuantizer&>(quantiser_of(tensor)).zero_point() +
      (is_shifted(tensor) ? 128 : 0);
}

// Whether it is an activation that quantised Sites compute with.
inline bool is_activation(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_quantized() &&
      (tensor.scalar_type() == at::kQUInt8 || is_shifted(tensor)) && tensor.device().is_cpu() &&
      tensor.has_storage() && tensor.numel() > 0 &&
      quantiser_of(tensor).qscheme() == at::kPerTensorAffine;
}

// What XNNPACK needs to know of a layer, besides its shape and its weights.
struct QuantisedLayer {
  std::vector<float> factors; // of each channel's sums
  std::vector<int32_t> bias;
  double input_scale = 0, output_scale = 0;
  int64_t input_zero = 0, output_zero = 0; // unsigned
  int8_t least = -128;

  int8_t shifted_input_zero() const { return int8_t(input_zero - 128); }
  int8_t shifted_output_zero() const { return int8_t(output_zero - 128); }
};

// The scale of each output channel. False where a weight of 0 is not zero.
inline bool read_scales(const at::Tensor& weight, std::vector<double>* scales) {
  const at::Quantizer& quantiser = quantiser_of(weight);
  const auto channels = size_t(weight.size(0));
  if (quantiser.qscheme() == at::kPerTensorAffine) {
    scales->assign(channels, scale_of(weight));
    return static_cast<const at::PerTensorAffineQuantizer&>(quantiser).zero_point() == 0;
  }
  if (quantiser.qscheme() != at::kPerChannelAffine) {
    return false;
  }
  const auto& each = static_cast<const at::PerChannelAffineQuantizer&>(quantiser);
  const at::Tensor given = each.scales(), zeros = each.zero_points();
  if (each.axis() != 0 || given.scalar_type() != at::kDouble || zeros.scalar_type() != at::kLong ||
      given.numel() != weight.size(0) || zeros.numel() != weight.size(0) ||
      !given.is_contiguous() || !zeros.is_contiguous()) {
    return false;
  }
  const auto* scale = static_cast<const double*>(given.unsafeGetTensorImpl()->data());
  const auto* zero = static_cast<const int64_t*>(zeros.unsafeGetTensorImpl()->data());
  scales->assign(scale, scale + channels);
  return std::all_of(zero, zero + channels, [](int64_t one) { return one == 0; });
}

// Reads a layer: `input`, `scale` and `zero` say how its tensors are quantised. False where it is for
// QNNPACK.
inline bool read_quantised(const at::Tensor& input, const c10::IValue& scale,
                           const c10::IValue& zero, bool clamps, const at::Tensor& weight,
                           const c10::optional<at::Tensor>& bias, QuantisedLayer* found) {
  std::vector<double> scales;
  if (!is_activation(input) || !scale.isDouble() || !zero.isInt() || zero.toInt() < 0 || zero.toInt() > 255 ||
      !weight.is_quantized() || weight.scalar_type() != at::kQInt8 || weight.numel() == 0 || !bias.has_value() ||
      !bias->defined() || bias->scalar_type() != at::kFloat || !bias->is_contiguous() ||
      bias->dim() != 1 || bias->size(0) != weight.size(0) || !read_scales(weight, &scales)) {
    return false;
  }
  found->input_scale = scale_of(input);
  found->input_zero = zero_of(input);
  found->output_scale = scale.toDouble();
  found->output_zero = zero.toInt();
  found->least = clamps ? found->shifted_output_zero() : int8_t(-128);
  // as QNNPACK computes them (QnnpackUtils.h, generate_requantization_scales)
  const float inverse = 1.0f / float(found->output_scale);
  for (const double one : scales) {
    const float factor = float(one) * float(found->input_scale) * inverse;
    if (!std::isnormal(factor) || factor <= 0) {
      return false;
    }
    found->factors.push_back(factor);
  }
  const bool each = quantiser_of(weight).qscheme() == at::kPerChannelAffine;
  const at::Tensor summands =
      quant_utils::QuantizeBias(each, *bias, weight, found->input_scale);
  const auto* summand = static_cast<const int32_t*>(summands.unsafeGetTensorImpl()->data());
  found->bias.assign(summand, summand + scales.size());
  return true;
}

// Whether kernels may add two products in 16 bits, as some for ARM do: that is too few for two of -128
// times -128. `kernel`: all weights of an output channel after those of the other.
inline bool adds_in_16_bits(const int8_t* kernel, int64_t channels, int64_t each) {
#if defined(__ARM_NEON) || defined(__aarch64__)
  for (int64_t channel = 0; channel < channels; ++channel) {
    if (std::count(kernel + channel * each, kernel + (channel + 1) * each, int8_t(-128)) > 1) {
      return false;
    }
  }
#endif
  (void)kernel, (void)channels, (void)each;
  return true;
}

// `to` may be `from`: through copies, or a loop in place would not be vectorised.
inline void shift(const uint8_t* from, uint8_t* to, int64_t count) {
  constexpr int64_t kWords = 4;
  for (; count >= int64_t(sizeof(uint64_t)) * kWords;) {
    uint64_t words[kWords];
    std::memcpy(words, from, sizeof words);
    for (uint64_t& word : words) {
      word ^= 0x8080808080808080;
    }
    std::memcpy(to, words, sizeof words);
    from += sizeof words;
    to += sizeof words;
    count -= int64_t(sizeof words);
  }
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i] ^ 0x80;
  }
}

inline uint8_t* bytes_of(const at::Tensor& tensor) {
  return static_cast<uint8_t*>(const_cast<void*>(tensor.unsafeGetTensorImpl()->data()));
}

// Memory behind which XNNPACK may read.
inline at::DataPtr scratch(int64_t bytes) {
  return c10::GetCPUAllocator()->allocate(size_t(bytes) + XNN_EXTRA_BYTES);
}

// A result that nothing has written: signed, where it stays among Sites.
inline at::Tensor empty_quantised(at::IntArrayRef sizes, const QuantisedLayer& of, bool stays,
                                  at::MemoryFormat format) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    TORCH_CHECK(!__builtin_mul_overflow(elements, size, &elements) && elements <= int64_t(1) << 40,
                "a result is too large");
  }
  return at::native::empty_affine_quantized(
      sizes, stays ? at::kQInt8 : at::kQUInt8, c10::nullopt, at::kCPU, c10::nullopt,
      of.output_scale, of.output_zero - (stays ? 128 : 0), format);
}

// The activation as the model's own operators take it.
inline at::Tensor usual(const at::Tensor& input) {
  // another Site's result: its numbers lie side by side. Where they do not, it is a model's own, which
  // its operators refuse.
  if (!is_activation(input) || !is_shifted(input) ||
      !input.unsafeGetTensorImpl()->is_non_overlapping_and_dense()) {
    return input;
  }
  at::Tensor found = at::native::empty_affine_quantized(
      input.sizes(), at::kQUInt8, c10::nullopt, at::kCPU, c10::nullopt, scale_of(input),
      zero_of(input), c10::nullopt);
  found.unsafeGetTensorImpl()->set_sizes_and_strides(input.sizes(), input.strides());
  shift(bytes_of(input), bytes_of(found), input.numel());
  return found;
}

// A Site of such a layer: (input, packed weights, scale and zero point of the result).
class QuantisedSite : public Site {
 public:
  explicit QuantisedSite(std::vector<Step> steps)
      : Site(with_usual_input(std::move(steps)), /*input=*/0, /*inputs=*/1, /*any=*/true) {}

 protected:
  static bool fits(const QuantisedLayer& of, const at::Tensor& input) {
    return is_activation(input) && scale_of(input) == of.input_scale &&
        zero_of(input) == of.input_zero;
  }

 private:
  static std::vector<Step> with_usual_input(std::vector<Step> steps) {
    Step& own = steps[0];
    own.run = [run = std::move(own.run), taken = own.taken](Stack& stack) {
      c10::IValue& input = stack[stack.size() - taken];
      if (input.isTensor()) {
        input = usual(input.toTensor());
      }
      run(stack);
    };
    return steps;
  }
};

// What a layer's packed weights were made of. False where `value` does not tell.
template <class PackedParams>
bool unpack(const c10::IValue& value, c10::intrusive_ptr<PackedParams>* params, at::Tensor* weight,
            c10::optional<at::Tensor>* bias) {
  if (!value.isObject()) {
    return false;
  }
  try {
    *params = value.toCustomClass<PackedParams>();
    std::tie(*weight, *bias) = (*params)->unpack();
  } catch (const c10::Error&) {
    return false; // QNNPACK has packed them, and let go of what they were
  }
  return weight->defined();
}

template <class PackedParams>
at::Tensor weight_in(const c10::IValue& value) {
  c10::intrusive_ptr<PackedParams> params;
  at::Tensor weight;
  c10::optional<at::Tensor> bias;
  unpack(value, &params, &weight, &bias);
  return weight;
}

} // namespace lta
