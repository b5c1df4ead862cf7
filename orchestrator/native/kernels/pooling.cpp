// Sites of max_pool2d and avg_pool2d: images stay as convolutions leave them, channels last.
//
// ATen's own kernel finds the places of the largest numbers, too, which `max_pool2d` throws away.
#include "images.h"
#include "pool.h"
#include "pooling_rows.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace lta {
namespace {

using at::Tensor;
using c10::IValue;

struct PackedPooling : Packed {
  uint32_t size[2], stride[2], padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool ceil = false, is_mean = false, with_padding = true;
  int64_t divisor = 0;
  // for images of this height and width
  int64_t area[2] = {0, 0};
  std::vector<Window> windows[2];
};

// As `pooling_output_shape` in ATen/native/Pool.h, and what its callers take of an image. False where
// they would refuse it, and only there: ATen's kernels may be without the code for channels that are
// last, for a trace has seen none.
bool find_windows(const PackedPooling& of, int dim, int64_t in, std::vector<Window>* windows) {
  const int64_t size = of.size[dim], stride = of.stride[dim], padding = of.padding[dim];
  const int64_t step = of.dilation[dim], reach = step * (size - 1) + 1;
  const int64_t room = in + 2 * padding - reach + (of.ceil ? stride - 1 : 0);
  if (size <= 0 || stride <= 0 || step <= 0 || padding > size / 2 || room < 0) {
    return false;
  }
  int64_t out = room / stride + 1;
  if (of.ceil && (out - 1) * stride >= in + padding) {
    --out;
  }
  windows->clear();
  for (int64_t i = 0; i < out; ++i) {
    int64_t first = i * stride - padding;
    const int64_t whole = std::min(first + size, in + padding) - first; // of means: no dilation
    const int64_t end = std::min(first + reach, in);
    if (first < 0) {
      first += (-first + step - 1) / step * step;
    }
    const int64_t count = first < end ? (end - first + step - 1) / step : 0;
    windows->push_back({count == 0 ? 0 : first, count, whole});
  }
  return true;
}

struct Region {
  const PackedPooling& of;
  const float* from;
  float* to;
  int64_t channels;

  // Rows of all images.
  void run(int64_t first, int64_t last) const {
    const auto out_height = int64_t(of.windows[0].size()), out_width = int64_t(of.windows[1].size());
    for (int64_t at = first; at < last; ++at) {
      const PooledRow row{from + at / out_height * of.area[0] * of.area[1] * channels,
                          to + at * out_width * channels,
                          channels,
                          of.area[1],
                          out_width,
                          of.windows[0][size_t(at % out_height)],
                          of.windows[1].data(),
                          of.dilation[0],
                          of.dilation[1]};
      if (of.is_mean) {
        means_of_windows(row, of.divisor, of.with_padding);
      } else {
        largest_in_windows(row);
      }
    }
  }
};

class PoolingSite : public Site {
 public:
  PoolingSite(std::vector<Step> steps, bool is_mean)
      : Site(std::move(steps), 0), is_mean_(is_mean) {
    has_no_weights = true;
  }

 protected:
  // max_pool2d(input, size, stride, padding, dilation, ceil)
  // avg_pool2d(input, size, stride, padding, ceil, count_include_pad, divisor_override)
  std::unique_ptr<Packed> pack(const Given& given) const override {
    auto packed = std::make_unique<PackedPooling>();
    const Arguments& main = given.main;
    const bool as_size = main[2].isNone() || (main[2].isIntList() && main[2].toListRef().empty());
    const IValue& ceil = main[is_mean_ ? 4 : 5];
    if (!read_pair(main[1], 0, 2, packed->size) ||
        !read_pair(main[as_size ? 1 : 2], 0, 2, packed->stride) ||
        !read_pair(main[3], 0, 2, packed->padding) ||
        (!is_mean_ && !read_pair(main[4], 1, 2, packed->dilation))) {
      return nullptr;
    }
    packed->is_mean = is_mean_;
    packed->ceil = ceil.isBool() && ceil.toBool();
    if (is_mean_) {
      packed->with_padding = !main[5].isBool() || main[5].toBool();
      packed->divisor = main[6].isInt() ? main[6].toInt() : 0;
      if (main[6].isInt() && packed->divisor <= 0) {
        return nullptr;
      }
    }
    return packed;
  }

  Results compute(Packed& of, const Arguments& inputs) const override {
    auto& packed = static_cast<PackedPooling&>(of);
    const Tensor& input = inputs[0].toTensor();
    if (input.dim() != 4) {
      return {};
    }
    const int64_t batch = input.size(0), channels = input.size(1);
    for (int dim = 0; dim < 2; ++dim) {
      const int64_t size = input.size(2 + dim);
      if (packed.area[dim] != size) {
        packed.area[dim] = 0;
        if (!find_windows(packed, dim, size, &packed.windows[dim])) {
          return {};
        }
        packed.area[dim] = size;
      }
    }
    const Tensor images =
        channels_last_of(input, batch, channels, packed.area[0] * packed.area[1]);
    const auto height = int64_t(packed.windows[0].size()), width = int64_t(packed.windows[1].size());
    Tensor result = empty_images({batch, channels, height, width});
    // a number takes about as long as four multiplications
    const pthreadpool_t pool = pool_for(4.0 * double(result.numel()) * double(packed.size[0]) *
                                        double(packed.size[1]));
    const Region region{packed, data_of(images), data_of(result), channels};
    for_ranges(pool, batch * height,
               [&](int64_t, int64_t first, int64_t last) { region.run(first, last); });
    return {channels_last ? result : in_usual_order(result)};
  }

 private:
  const bool is_mean_;
};

std::unique_ptr<Site> make_largest(std::vector<Step> steps) {
  return std::make_unique<PoolingSite>(std::move(steps), false);
}
std::unique_ptr<Site> make_means(std::vector<Step> steps) {
  return std::make_unique<PoolingSite>(std::move(steps), true);
}

SiteKind kinds[] = {
    {"aten::max_pool2d", 1, 1, false, false, make_largest, nullptr, false, nullptr, true},
    {"aten::avg_pool2d", 1, 1, false, false, make_means, nullptr, false, nullptr, true},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace
} // namespace lta
