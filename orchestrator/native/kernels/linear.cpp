// Linear layers through XNNPACK: `linear` with a weight [out, in], `addmm` with a weight [in, out];
// with the clamp that follows.
#include "module_sites.h"
#include "xnnpack_operator.h"

#include <cstring>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

struct PackedLayer : Packed {
  Operator op;
  int64_t in = 0, out = 0, rows = -1;
  size_t threads = 0;
};

bool is_one(const IValue& value) {
  return value.isNone() || (value.isInt() && value.toInt() == 1) ||
      (value.isDouble() && value.toDouble() == 1);
}

class LinearSite : public Site {
 public:
  LinearSite(std::vector<Step> steps, bool is_addmm)
      : Site(std::move(steps), is_addmm ? 1 : 0), is_addmm_(is_addmm) {}

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    // linear(input, weight, bias), addmm(bias, input, weight, beta, alpha)
    const Arguments& main = given.main;
    Tensor weight, bias;
    if (!read_tensor(main[is_addmm_ ? 2 : 1], &weight) || !weight.defined() ||
        !read_tensor(main[is_addmm_ ? 0 : 2], &bias) || weight.dim() != 2 ||
        !weight.is_contiguous() || (is_addmm_ && !(is_one(main[3]) && is_one(main[4])))) {
      return nullptr;
    }
    const int64_t in = weight.size(is_addmm_ ? 0 : 1), out = weight.size(is_addmm_ ? 1 : 0);
    xnn_operator* made = nullptr;
    if (!is_vector(bias, out) ||
        xnn_create_fully_connected_nc_f32(
            size_t(in), size_t(out), size_t(in), size_t(out), data_of(weight),
            bias.defined() ? data_of(bias) : nullptr, given.least, given.most,
            is_addmm_ ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0, /*code_cache=*/nullptr,
            /*weights_cache=*/nullptr, &made) != xnn_status_success) {
      return nullptr;
    }
    auto packed = std::make_unique<PackedLayer>();
    packed->op.reset(made);
    packed->in = in;
    packed->out = out;
    return packed;
  }

  Tensor compute(Packed& of, const Tensor& input) const override {
    auto& packed = static_cast<PackedLayer&>(of);
    if ((is_addmm_ ? input.dim() != 2 : input.dim() < 1) || !input.is_contiguous() ||
        input.sizes().back() != packed.in) {
      return Tensor();
    }
    const int64_t rows = input.numel() / packed.in;
    const pthreadpool_t pool = pool_for(double(input.numel()) * double(packed.out));
    const size_t threads = pthreadpool_get_threads_count(pool);
    if (packed.rows != rows || packed.threads != threads) {
      packed.rows = -1;
      if (xnn_reshape_fully_connected_nc_f32(packed.op.get(), size_t(rows), pool) !=
          xnn_status_success) {
        return Tensor();
      }
      packed.rows = rows;
      packed.threads = threads;
    }
    Tensor source = input;
    if (!has_room_behind(input)) {
      source = empty_float({rows * packed.in}, {1});
      std::memcpy(data_of(source), data_of(input), size_t(rows * packed.in) * sizeof(float));
    }
    std::vector<int64_t> sizes(input.sizes().begin(), input.sizes().end()), strides(sizes.size());
    sizes.back() = packed.out;
    int64_t stride = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride *= sizes[dim];
    }
    Tensor result = empty_float(sizes, strides);
    if (xnn_setup_fully_connected_nc_f32(packed.op.get(), data_of(source), data_of(result)) !=
            xnn_status_success ||
        xnn_run_operator(packed.op.get(), pool) != xnn_status_success) {
      return Tensor();
    }
    return result;
  }

 private:
  const bool is_addmm_;
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
