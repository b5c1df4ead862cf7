// Sites of convolutions of 8-bit integers: one and two dimensions.
#include "convolution.h"
#include "depthwise.h"
#include "pool.h"
#include "quantised.h"

namespace lta {

std::unique_ptr<Depthwise> (*make_depthwise)(const DepthwiseLayer& of) = nullptr;

namespace {

using at::Tensor;

struct PackedQuantised : PackedConvolution {
  QuantisedLayer layer;
  std::unique_ptr<Depthwise> depthwise; // in the place of XNNPACK's operator
};

// How many places of the result there are in one dimension.
int64_t places(int64_t size, uint32_t kernel, uint32_t stride, uint32_t padding, uint32_t dilation) {
  const int64_t room = size + 2 * int64_t(padding) - (int64_t(kernel) - 1) * dilation - 1;
  return room < 0 ? 0 : room / stride + 1;
}

bool reshape(PackedConvolution& packed, size_t* workspace, pthreadpool_t pool) {
  return xnn_reshape_convolution2d_nhwc_qs8_qc8w(
             packed.op.get(), size_t(packed.batch), size_t(packed.height), size_t(packed.width),
             workspace, &packed.workspace_alignment, &packed.out_height, &packed.out_width,
             pool) == xnn_status_success;
}

// Images, channels first, become signed and have their channels last.
void turn(const uint8_t* from, uint8_t* to, int64_t channels, int64_t area) {
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t i = 0; i < area; ++i) {
      to[i * channels + channel] = *from++ ^ 0x80;
    }
  }
}

class QuantisedConvolutionSite : public QuantisedSite {
 public:
  // dims: of the input's images; the weights of those with one have two
  QuantisedConvolutionSite(std::vector<Step> steps, int64_t dims, bool clamps)
      : QuantisedSite(std::move(steps)), dims_(dims), clamps_(clamps) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    c10::intrusive_ptr<ConvPackedParamsBase<2>> params;
    Convolution of;
    c10::optional<Tensor> bias;
    auto packed = std::make_unique<PackedQuantised>();
    if (!unpack(given.main[1], &params, &of.weight, &bias) || params->transpose() ||
        of.weight.dim() != 4) {
      return nullptr;
    }
    of.dims = 2;
    of.groups = params->groups();
    if (of.groups <= 0 || of.weight.size(0) % of.groups != 0 ||
        !read_pair(params->stride(), 1, of.stride) || !read_pair(params->padding(), 0, of.padding) ||
        !read_pair(params->dilation(), 1, of.dilation) ||
        !read_quantised(given.main[0].toTensor(), given.main[2], given.main[3], clamps_, of.weight,
                        bias, &packed->layer)) {
      return nullptr;
    }
    const auto in = size_t(of.in()), out = size_t(of.out()), groups = size_t(of.groups);
    const std::vector<int8_t> kernel = kernel_of(of.weight);
    if (!adds_in_16_bits(kernel.data(), of.out(), of.weight.numel() / of.out())) {
      return nullptr;
    }
    const QuantisedLayer& layer = packed->layer;
    packed->of = of;
    if (make_depthwise != nullptr && groups == in && groups == out) {
      packed->depthwise = make_depthwise(
          {in, {of.height(), of.width()}, {of.stride[0], of.stride[1]},
           {of.padding[0], of.padding[1]}, {of.dilation[0], of.dilation[1]}, kernel.data(),
           layer.factors.data(), layer.bias.data(), layer.shifted_input_zero(),
           layer.shifted_output_zero(), layer.least});
      if (packed->depthwise) {
        return packed;
      }
    }
    xnn_operator* made = nullptr;
    // each factor is made of all scales
    xnn_create_convolution2d_nhwc_qs8_qc8w(
        of.padding[0], of.padding[1], of.padding[0], of.padding[1], of.height(), of.width(),
        of.stride[0], of.stride[1], of.dilation[0], of.dilation[1], uint32_t(groups), in / groups,
        out / groups, in, out, layer.shifted_input_zero(), /*input_scale=*/1, layer.factors.data(),
        kernel.data(), layer.bias.data(), layer.shifted_output_zero(), /*output_scale=*/1,
        layer.least, INT8_MAX, /*flags=*/0, /*code_cache=*/nullptr, /*weights_cache=*/nullptr,
        &made);
    packed->op.reset(made);
    return made != nullptr ? std::move(packed) : nullptr;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    const Tensor& input = inputs[0].toTensor();
    auto& packed = static_cast<PackedQuantised&>(of);
    const int64_t in = packed.of.in(), out = packed.of.out();
    if (!fits(packed.layer, input) || input.dim() != dims_ + 2 || input.size(1) != in) {
      return {};
    }
    const bool flat = dims_ == 1;
    const int64_t batch = input.size(0), width = input.size(-1);
    const int64_t height = flat ? 1 : input.size(2), area = height * width;
    const pthreadpool_t pool = pool_for(packed.of.work(double(batch) * double(area)));
    int64_t out_height, out_width;
    if (packed.depthwise) {
      const Convolution& layer = packed.of;
      out_height = places(height, layer.height(), layer.stride[0], layer.padding[0], layer.dilation[0]);
      out_width = places(width, layer.width(), layer.stride[1], layer.padding[1], layer.dilation[1]);
    } else {
      if (!shape(reshape, packed, batch, height, width, pool)) {
        return {};
      }
      out_height = int64_t(packed.out_height);
      out_width = int64_t(packed.out_width);
    }
    constexpr int64_t most = int64_t(1) << 30;
    if (out_height <= 0 || out_width <= 0 || out_height > most || out_width > most) {
      return {};
    }
    at::DataPtr copy;
    const int8_t* const images = images_of(input, batch, in, area, &copy);
    if (images == nullptr) {
      return {};
    }
    Tensor result = empty_quantised({batch, out, out_height, out_width}, packed.layer, channels_last,
                                    at::MemoryFormat::ChannelsLast);
    auto* const to = reinterpret_cast<int8_t*>(bytes_of(result));
    char* space = packed.workspace.data();
    const auto alignment = uintptr_t(packed.workspace_alignment);
    space += (alignment - uintptr_t(space) % alignment) % alignment;
    if (packed.depthwise) {
      packed.depthwise->run({images, to, batch, {height, width}, {out_height, out_width}}, pool);
    } else if (
        xnn_setup_convolution2d_nhwc_qs8_qc8w(packed.op.get(), space, images, to) !=
            xnn_status_success ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return {};
    }
    if (!channels_last) {
      shift(bytes_of(result), bytes_of(result), result.numel());
    }
    if (flat) {
      const int64_t sizes[3] = {batch, out, out_width}, strides[3] = {out_width * out, 1, out};
      result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    }
    return {result};
  }

 private:
  // The weights: an output channel after the other, its input channels last.
  static std::vector<int8_t> kernel_of(const Tensor& weight) {
    std::vector<int8_t> kernel(size_t(weight.numel()));
    const auto* from = reinterpret_cast<const int8_t*>(bytes_of(weight));
    const auto strides = weight.strides();
    int8_t* to = kernel.data();
    for (int64_t o = 0; o < weight.size(0); ++o) {
      for (int64_t y = 0; y < weight.size(2); ++y) {
        for (int64_t x = 0; x < weight.size(3); ++x) {
          for (int64_t i = 0; i < weight.size(1); ++i) {
            *to++ = from[o * strides[0] + i * strides[1] + y * strides[2] + x * strides[3]];
          }
        }
      }
    }
    return kernel;
  }

  // The images, signed and with their channels last; null where they lie in memory in another way.
  static const int8_t* images_of(const Tensor& input, int64_t batch, int64_t channels, int64_t area,
                               at::DataPtr* copy) {
    const auto sizes = input.sizes();
    const auto strides = input.strides();
    bool is_last = channels == 1 || strides[1] == 1;
    int64_t expected = channels;
    for (size_t dim = sizes.size() - 1; dim >= 2; --dim) {
      is_last = is_last && (sizes[dim] == 1 || strides[dim] == expected);
      expected *= sizes[dim];
    }
    is_last = is_last && (batch == 1 || strides[0] == expected);
    if (is_last && is_shifted(input) && has_room_behind(input)) {
      return reinterpret_cast<const int8_t*>(bytes_of(input));
    }
    if (is_shifted(input) || !(is_last || input.is_contiguous())) {
      return nullptr;
    }
    *copy = scratch(input.numel());
    auto* to = static_cast<uint8_t*>(copy->get());
    if (is_last) {
      shift(bytes_of(input), to, input.numel());
    } else {
      for (int64_t n = 0; n < batch; ++n) {
        turn(bytes_of(input) + n * channels * area, to + n * channels * area, channels, area);
      }
    }
    return reinterpret_cast<const int8_t*>(to);
  }

  static bool read_pair(const torch::List<int64_t>& from, int64_t least, uint32_t (&pair)[2]) {
    if (from.size() != 2) {
      return false;
    }
    for (size_t i = 0; i < 2; ++i) {
      const int64_t one = from.get(i);
      if (one < least || one > 1 << 20) {
        return false;
      }
      pair[i] = uint32_t(one);
    }
    return true;
  }

  const int64_t dims_;
  const bool clamps_;
};

template <int dims, bool clamps>
std::unique_ptr<Site> make(std::vector<Step> steps) {
  return std::make_unique<QuantisedConvolutionSite>(std::move(steps), dims, clamps);
}

// (input, packed, scale, zero point)
template <int dims, bool clamps>
constexpr SiteKind kind_of(const char* name) {
  return {name, 1, 1, false, false, make<dims, clamps>, nullptr, false,
          weight_in<ConvPackedParamsBase<2>>};
}

SiteKind kinds[] = {
    kind_of<2, false>("quantized::conv2d.new"),
    kind_of<2, true>("quantized::conv2d_relu.new"),
    kind_of<1, false>("quantized::conv1d"),
    kind_of<1, true>("quantized::conv1d_relu"),
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1]), ListedKind(&kinds[2]),
                             ListedKind(&kinds[3])};

} // namespace
} // namespace lta
