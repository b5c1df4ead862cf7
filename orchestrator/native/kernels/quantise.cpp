// Sites of operators that quantise floats to 8-bit integers. What reaches only other quantised Sites is
// at once as they have it: signed, images with their channels last.
#include "quantised.h"
#include "quantiser.h"

namespace lta {
namespace {

using at::Tensor;

struct PackedQuantiser : Packed {
  QuantisedLayer layer; // of the output alone
};

// (input, scale, zero point, dtype)
class QuantiseSite : public Site {
 public:
  explicit QuantiseSite(std::vector<Step> steps) : Site(std::move(steps), /*input=*/0) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    auto packed = std::make_unique<PackedQuantiser>();
    double scale, zero;
    const c10::IValue& dtype = given.main[3];
    if (!read_one(given.main[1], &scale) || !read_one(given.main[2], &zero) || !dtype.isInt() ||
        dtype.toInt() != int64_t(at::kQUInt8) || !(zero >= 0 && zero <= 255) ||
        zero != double(int64_t(zero)) || !std::isnormal(float(scale)) || scale <= 0 ||
        !std::isfinite(1.0f / float(scale))) {
      return nullptr;
    }
    packed->layer.output_scale = scale;
    packed->layer.output_zero = int64_t(zero);
    return packed;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    const Tensor& input = inputs[0].toTensor();
    const QuantisedLayer& layer = static_cast<PackedQuantiser&>(of).layer;
    if (!input.is_contiguous()) {
      return {};
    }
    const bool turns = channels_last && input.dim() == 4;
    Tensor result = empty_quantised(
        input.sizes(), layer, turns,
        turns ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
    const Quantiser quantiser{1.0f / float(layer.output_scale), int16_t(layer.output_zero),
                              uint8_t(turns ? 0x80 : 0)};
    const float* const from = data_of(input);
    uint8_t* const to = bytes_of(result);
    if (!turns) {
      quantiser.row(from, to, input.numel());
      return {result};
    }
    const int64_t channels = input.size(1), area = input.size(2) * input.size(3);
    for (int64_t n = 0; n < input.size(0); ++n) {
      quantiser.image(from + n * channels * area, to + n * channels * area, channels, area);
    }
    return {result};
  }

 private:
  // A number, or a tensor of one.
  static bool read_one(const c10::IValue& value, double* number) {
    if (value.isDouble()) {
      *number = value.toDouble();
      return true;
    }
    if (value.isInt()) {
      *number = double(value.toInt());
      return true;
    }
    if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().numel() != 1 ||
        !value.toTensor().device().is_cpu() || !value.toTensor().has_storage()) {
      return false;
    }
    const Tensor& tensor = value.toTensor();
    const void* const data = tensor.unsafeGetTensorImpl()->data();
    switch (tensor.scalar_type()) {
      case at::kFloat:
        *number = *static_cast<const float*>(data);
        return true;
      case at::kDouble:
        *number = *static_cast<const double*>(data);
        return true;
      case at::kInt:
        *number = *static_cast<const int32_t*>(data);
        return true;
      case at::kLong:
        *number = double(*static_cast<const int64_t*>(data));
        return true;
      default:
        return false;
    }
  }
};

std::unique_ptr<Site> make(std::vector<Step> steps) {
  return std::make_unique<QuantiseSite>(std::move(steps));
}

SiteKind kinds[] = {
    {"aten::quantize_per_tensor", 1, 1, false, false, make, nullptr, true},
    {"aten::quantize_per_tensor.tensor_qparams", 1, 1, false, false, make, nullptr, true},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace
} // namespace lta
