// Sites of linear layers of 8-bit integers.
#include "pool.h"
#include "quantised.h"

namespace lta {
namespace {

using at::Tensor;

struct PackedLayer : Packed {
  Operator op;
  QuantisedLayer layer;
  int64_t in = 0, out = 0, rows = -1;
  size_t threads = 0;
};

class QuantisedLinearSite : public QuantisedSite {
 public:
  QuantisedLinearSite(std::vector<Step> steps, bool clamps)
      : QuantisedSite(std::move(steps)), clamps_(clamps) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    c10::intrusive_ptr<LinearPackedParamsBase> params;
    Tensor weight;
    c10::optional<Tensor> bias;
    auto packed = std::make_unique<PackedLayer>();
    if (!unpack(given.main[1], &params, &weight, &bias) || weight.dim() != 2 ||
        !weight.is_contiguous() ||
        !adds_in_16_bits(kernel_of(weight), weight.size(0), weight.size(1)) ||
        !read_quantised(given.main[0].toTensor(), given.main[2], given.main[3], clamps_, weight,
                        bias, &packed->layer)) {
      return nullptr;
    }
    const QuantisedLayer& layer = packed->layer;
    packed->in = weight.size(1);
    packed->out = weight.size(0);
    xnn_operator* made = nullptr;
    // each factor is made of all scales
    xnn_create_fully_connected_nc_qs8_qc8w(
        size_t(packed->in), size_t(packed->out), size_t(packed->in), size_t(packed->out),
        layer.shifted_input_zero(), /*input_scale=*/1, layer.factors.data(),
        kernel_of(weight), layer.bias.data(),
        layer.shifted_output_zero(), /*output_scale=*/1, layer.least, INT8_MAX, /*flags=*/0,
        /*code_cache=*/nullptr, /*weights_cache=*/nullptr, &made);
    packed->op.reset(made);
    return made != nullptr ? std::move(packed) : nullptr;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    const Tensor& input = inputs[0].toTensor();
    auto& packed = static_cast<PackedLayer&>(of);
    if (!fits(packed.layer, input) || input.dim() < 2 || input.sizes().back() != packed.in) {
      return {};
    }
    // another Site's result: the model's own would be contiguous
    const bool turned = !input.is_contiguous();
    if (turned && !(is_shifted(input) && input.is_contiguous(at::MemoryFormat::ChannelsLast))) {
      return {};
    }
    const int64_t rows = input.numel() / packed.in;
    const pthreadpool_t pool = pool_for(double(input.numel()) * double(packed.out));
    const size_t threads = pthreadpool_get_threads_count(pool);
    if (packed.rows != rows || packed.threads != threads) {
      packed.rows = -1;
      if (xnn_reshape_fully_connected_nc_qs8_qc8w(packed.op.get(), size_t(rows), pool) !=
          xnn_status_success) {
        return {};
      }
      packed.rows = rows;
      packed.threads = threads;
    }
    at::DataPtr copy;
    const uint8_t* from = bytes_of(input);
    if (turned || !is_shifted(input) || !has_room_behind(input)) {
      copy = scratch(input.numel());
      auto* to = static_cast<uint8_t*>(copy.get());
      if (turned) {
        const int64_t channels = input.size(1), area = input.size(2) * input.size(3);
        for (int64_t i = 0; i < input.numel(); ++i) {
          const int64_t place = i % area, channel = i / area % channels;
          to[i] = from[(i / area / channels * area + place) * channels + channel];
        }
      } else if (is_shifted(input)) {
        std::copy(from, from + input.numel(), to);
      } else {
        shift(from, to, input.numel());
      }
      from = to;
    }
    std::vector<int64_t> sizes(input.sizes().begin(), input.sizes().end());
    sizes.back() = packed.out;
    Tensor result =
        empty_quantised(sizes, packed.layer, channels_last, at::MemoryFormat::Contiguous);
    if (xnn_setup_fully_connected_nc_qs8_qc8w(
            packed.op.get(), reinterpret_cast<const int8_t*>(from),
            reinterpret_cast<int8_t*>(bytes_of(result))) != xnn_status_success ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return {};
    }
    if (!channels_last) {
      shift(bytes_of(result), bytes_of(result), result.numel());
    }
    return {result};
  }

 private:
  static const int8_t* kernel_of(const Tensor& weight) {
    return reinterpret_cast<const int8_t*>(bytes_of(weight));
  }

  const bool clamps_;
};

template <bool clamps>
std::unique_ptr<Site> make(std::vector<Step> steps) {
  return std::make_unique<QuantisedLinearSite>(std::move(steps), clamps);
}

// (input, packed, scale, zero point)
template <bool clamps>
constexpr SiteKind kind_of(const char* name) {
  return {name, 1, 1, false, false, make<clamps>, nullptr, false,
          weight_in<LinearPackedParamsBase>};
}

SiteKind kinds[] = {
    kind_of<false>("quantized::linear"),
    kind_of<true>("quantized::linear_relu"),
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace
} // namespace lta
