// Linear layers through XNNPACK: `linear` with a weight [out, in], `addmm` with a weight [in, out];
// with the clamp that follows. Products that are layers, too: products.cpp.
#include "linear.h"
#include "pool.h"
#include "xnnpack_operator.h"

#include <ATen/core/DimVector.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

struct PackedLayer : Packed {
  std::unique_ptr<Operator[]> ops; // of each matrix of a batch
  int64_t batch = 0;
  int64_t dims = 0; // of the input; 0: any
  int64_t in = 0, out = 0, rows = -1;
  size_t threads = 0;
};

class LinearSite : public Site {
 public:
  LinearSite(std::vector<Step> steps, size_t input, ReadLinear read)
      : Site(std::move(steps), input), read_(read) {
    takes_none = true;
  }

 protected:
  std::unique_ptr<Packed> pack(const Given& given) const override {
    LinearLayer of;
    if (!read_(given.main, &of) || of.weight.dim() < 2 || of.weight.dim() > 3 ||
        !(of.turned || of.weight.is_contiguous())) {
      return nullptr;
    }
    const int64_t in = of.weight.size(of.transposed ? -2 : -1);
    const int64_t out = of.weight.size(of.transposed ? -1 : -2);
    // those of its own clamp, and then of the one that follows
    const float least = std::min(std::max(of.least, given.least), given.most);
    const float most = std::min(std::max(of.most, given.least), given.most);
    if (!is_vector(of.bias, out) || !(least < most)) {
      return nullptr;
    }
    auto packed = std::make_unique<PackedLayer>();
    packed->dims = of.weight.dim() == 3 ? 3 : of.dims;
    packed->in = in;
    packed->out = out;
    packed->batch = of.weight.dim() == 3 ? of.weight.size(0) : 1;
    packed->ops.reset(new Operator[size_t(packed->batch)]);
    for (int64_t i = 0; i < packed->batch; ++i) {
      xnn_operator* made = nullptr;
      if (xnn_create_fully_connected_nc_f32(
              size_t(in), size_t(out), size_t(in), size_t(out), data_of(of.weight) + i * in * out,
              of.bias.defined() ? data_of(of.bias) : nullptr, least, most,
              of.transposed != of.turned ? XNN_FLAG_TRANSPOSE_WEIGHTS : 0, /*code_cache=*/nullptr,
              /*weights_cache=*/nullptr, &made) != xnn_status_success) {
        return nullptr;
      }
      packed->ops[size_t(i)].reset(made);
    }
    return packed;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    auto& packed = static_cast<PackedLayer&>(of);
    const Tensor& input = inputs[0].toTensor();
    const int64_t batch = packed.batch;
    if ((packed.dims != 0 ? input.dim() != packed.dims : input.dim() < 1) ||
        input.sizes().back() != packed.in ||
        (packed.dims == 3 && input.size(0) != batch)) {
      return {};
    }
    const int64_t rows = input.numel() / packed.in / batch;
    // Of few rows the time goes into reading the weights: each counts as a multiplication.
    const double work = double(rows + 1) * double(packed.in) * double(packed.out);
    const pthreadpool_t pool = pool_for(work);
    const size_t threads = pthreadpool_get_threads_count(pool);
    if (packed.rows != rows || packed.threads != threads) {
      packed.rows = -1;
      for (int64_t i = 0; i < batch; ++i) {
        if (xnn_reshape_fully_connected_nc_f32(packed.ops[size_t(i)].get(), size_t(rows), pool) !=
            xnn_status_success) {
          return {};
        }
      }
      packed.rows = rows;
      packed.threads = threads;
    }
    Tensor source = input;
    if (!input.is_contiguous()) {
      source = empty_float({input.numel()}, {1});
      copy_in_order(data_of(input), input.sizes(), input.strides(), data_of(source));
    } else if (!has_room_behind(input)) {
      source = empty_float({input.numel()}, {1});
      std::memcpy(data_of(source), data_of(input), size_t(input.numel()) * sizeof(float));
    }
    at::DimVector sizes(input.sizes().begin(), input.sizes().end()), strides(sizes.size());
    sizes.back() = packed.out;
    int64_t stride = 1;
    for (size_t dim = sizes.size(); dim-- > 0;) {
      strides[dim] = stride;
      stride *= sizes[dim];
    }
    Tensor result = empty_float(sizes, strides);
    for (int64_t i = 0; i < batch; ++i) {
      xnn_operator* const op = packed.ops[size_t(i)].get();
      if (xnn_setup_fully_connected_nc_f32(op, data_of(source) + i * rows * packed.in,
                                           data_of(result) + i * rows * packed.out) !=
              xnn_status_success ||
          xnn_run_operator(op, pool) != xnn_status_success) {
        return {};
      }
    }
    return {result};
  }

 private:
  const ReadLinear read_;
};

// ---- What calls say ----

// linear(input, weight, bias)
bool read_linear(const Arguments& given, LinearLayer* found) {
  return read_tensor(given[1], &found->weight) && found->weight.defined() &&
      read_tensor(given[2], &found->bias);
}

bool is_one(const IValue& value) {
  return value.isNone() || (value.isInt() && value.toInt() == 1) ||
      (value.isDouble() && value.toDouble() == 1);
}

// addmm(bias, input, weight, beta, alpha)
bool read_addmm(const Arguments& given, LinearLayer* found) {
  found->transposed = true;
  found->dims = 2;
  return read_tensor(given[2], &found->weight) && found->weight.defined() &&
      read_tensor(given[0], &found->bias) && is_one(given[3]) && is_one(given[4]);
}

std::unique_ptr<Site> make_plain(std::vector<Step> steps) {
  return make_linear(std::move(steps), 0, read_linear);
}
std::unique_ptr<Site> make_addmm(std::vector<Step> steps) {
  return make_linear(std::move(steps), 1, read_addmm);
}

SiteKind kinds[] = {
    {"aten::linear", 1, 1, true, false, make_plain, nullptr},
    {"aten::addmm", 2, 1, true, false, make_addmm, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace

std::unique_ptr<Site> make_linear(std::vector<Step> steps, size_t input, ReadLinear read) {
  return std::make_unique<LinearSite>(std::move(steps), input, read);
}

} // namespace lta
