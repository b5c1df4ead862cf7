// Linear layers through XNNPACK: `linear` with a weight [out, in], `addmm` with a weight [in, out];
// with the clamp that follows.
#include "module_sites.h"
#include "xnnpack_operator.h"

#include <cstring>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

// How often weights may be others than last time before a Site leaves them to the model's operators.
constexpr int kPatience = 4;

const float* data_of(const Tensor& tensor) {
  return static_cast<const float*>(tensor.unsafeGetTensorImpl()->data());
}

// The tensors that a packed layer was made of: held, so that no other takes their place in memory.
struct Sources {
  Tensor weight, bias;
  bool transposed = false; // [in, out]
  Limits clamp;

  bool operator==(const Sources& other) const {
    return weight.is_same(other.weight) && bias.is_same(other.bias) &&
        clamp.least == other.clamp.least && clamp.most == other.clamp.most;
  }
  int64_t in() const { return weight.size(transposed ? 0 : 1); }
  int64_t out() const { return weight.size(transposed ? 1 : 0); }
};

struct Packed {
  Sources sources;
  Operator op;
  int64_t rows = -1;
};

std::unique_ptr<Packed> pack(const Sources& from) {
  const bool fits = from.weight.is_contiguous() &&
      (!from.bias.defined() ||
       (is_plain(from.bias) && from.bias.dim() == 1 && from.bias.size(0) == from.out() &&
        from.bias.is_contiguous()));
  xnn_operator* made = nullptr;
  const auto in = size_t(from.in()), out = size_t(from.out());
  if (!fits ||
      xnn_create_fully_connected_nc_f32(
          in, out, in, out, data_of(from.weight),
          from.bias.defined() ? data_of(from.bias) : nullptr, from.clamp.least, from.clamp.most,
          from.transposed ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0, nullptr, nullptr, &made) !=
          xnn_status_success) {
    return nullptr;
  }
  auto packed = std::make_unique<Packed>();
  packed->op.reset(made);
  packed->sources = from;
  return packed;
}

bool is_one(const IValue& value) {
  return value.isNone() || (value.isInt() && value.toInt() == 1) ||
      (value.isDouble() && value.toDouble() == 1);
}

class LinearSite : public Site {
 public:
  LinearSite(std::vector<Step> steps, bool is_addmm)
      : Site(std::move(steps)), is_addmm_(is_addmm) {}

 protected:
  Tensor compute(const std::vector<Arguments>& arguments) override {
    // linear(input, weight, bias), addmm(bias, input, weight, beta, alpha)
    const Arguments& given = arguments[0];
    const IValue& of_input = given[is_addmm_ ? 1 : 0];
    const IValue& of_weight = given[is_addmm_ ? 2 : 1];
    const IValue& of_bias = given[is_addmm_ ? 0 : 2];
    Sources sources;
    sources.transposed = is_addmm_;
    if (misses_ > kPatience || !of_input.isTensor() || !of_weight.isTensor() ||
        !limits(arguments, &sources.clamp) || (is_addmm_ && !(is_one(given[3]) && is_one(given[4])))) {
      return Tensor();
    }
    if (of_bias.isTensor()) {
      sources.bias = of_bias.toTensor();
    } else if (!of_bias.isNone()) {
      return Tensor();
    }
    const Tensor& input = of_input.toTensor();
    sources.weight = of_weight.toTensor();
    if (!is_plain(input) || !is_plain(sources.weight) || sources.weight.dim() != 2 ||
        (is_addmm_ ? input.dim() != 2 : input.dim() < 1) || !input.is_contiguous() ||
        input.sizes().back() != sources.in() || !xnnpack_is_ready()) {
      return Tensor();
    }
    auto packed = shelf_.take();
    if (!packed || !(packed->sources == sources)) {
      misses_ += packed ? 1 : 0;
      packed = pack(sources);
    }
    Tensor result = packed ? multiply(*packed, input) : Tensor();
    if (result.defined()) {
      shelf_.put(std::move(packed));
    } else {
      misses_ = kPatience + 1;
    }
    return result;
  }

 private:
  static Tensor multiply(Packed& packed, const Tensor& input) {
    const int64_t in = packed.sources.in(), out = packed.sources.out();
    const int64_t rows = input.numel() / in;
    if (packed.rows != rows) {
      packed.rows = -1;
      if (xnn_reshape_fully_connected_nc_f32(packed.op.get(), size_t(rows), nullptr) !=
          xnn_status_success) {
        return Tensor();
      }
      packed.rows = rows;
    }
    Tensor source = input;
    if (!has_room_behind(input)) {
      source = empty_float({rows * in}, {1});
      std::memcpy(source.unsafeGetTensorImpl()->data(), data_of(input),
                  size_t(rows * in) * sizeof(float));
    }
    c10::SmallVector<int64_t, 5> sizes(input.sizes().begin(), input.sizes().end());
    sizes.back() = out;
    c10::SmallVector<int64_t, 5> strides(sizes.size());
    int64_t stride = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride *= sizes[dim];
    }
    Tensor result = empty_float(sizes, strides);
    if (xnn_setup_fully_connected_nc_f32(
            packed.op.get(), data_of(source),
            static_cast<float*>(result.unsafeGetTensorImpl()->data())) != xnn_status_success ||
        xnn_run_operator(packed.op.get(), nullptr) != xnn_status_success) {
      return Tensor();
    }
    return result;
  }

  const bool is_addmm_;
  Shelf<Packed> shelf_;
  std::atomic<int> misses_{0};
};

std::unique_ptr<Site> make_linear(std::vector<Step> steps) {
  return std::make_unique<LinearSite>(std::move(steps), false);
}
std::unique_ptr<Site> make_addmm(std::vector<Step> steps) {
  return std::make_unique<LinearSite>(std::move(steps), true);
}

SiteKind kinds[] = {
    {"aten::linear", 1, false, make_linear, nullptr},
    {"aten::addmm", 2, false, make_addmm, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace
} // namespace lta
