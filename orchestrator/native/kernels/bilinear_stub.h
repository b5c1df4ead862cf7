// aten/src/ATen/native/cpu/UpSampleKernel.cpp reads this before its own text: see faster.h.
#pragma once

#define TORCH_ASSERT_ONLY_METHOD_OPERATORS
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/UpSample.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "bilinear.h"
#include "faster.h"

namespace lta {

// The taps of a dimension, found as PyTorch finds them. times: numbers side by side at a place, each
// of which gets taps of its own.
class TapsOf {
 public:
  TapsOf(int64_t in, int64_t out, int64_t times, bool align_corners, at::native::scale_t scale)
      : places_(2 * room(out * times)), weights_(2 * room(out * times)), room_(room(out * times)) {
    const float ratio =
        at::native::area_pixel_compute_scale<float>(in, out, align_corners, scale);
    for (int64_t i = 0; i < out; ++i) {
      int64_t low, high;
      float of_low, of_high;
      at::native::compute_source_index_and_lambda(low, high, of_low, of_high, ratio, i, in, out,
                                                  align_corners);
      // PyTorch 1 reads behind an image whose scale is another one than that of the sizes
      low = std::min(low, in - 1);
      high = std::min(high, in - 1);
      for (int64_t n = 0; n < times; ++n) {
        const size_t at = size_t(i * times + n);
        places_[at] = int32_t(low * times + n);
        places_[room_ + at] = int32_t(high * times + n);
        weights_[at] = of_low;
        weights_[room_ + at] = of_high;
      }
    }
  }

  Taps taps() const {
    return {places_.data(), places_.data() + room_, weights_.data(), weights_.data() + room_};
  }

 private:
  static size_t room(int64_t count) { return size_t(count) + 8; } // lanes

  std::vector<int32_t> places_;
  std::vector<float> weights_;
  size_t room_;
};

// Fewer channels than these lie in lanes beside those of the next point.
constexpr int64_t kFewChannels = 8;

// False where the tensors are not as this computes with them.
inline bool interpolate_bilinear(const at::Tensor& output, const at::Tensor& input,
                                 bool align_corners, at::native::scale_t scale_down,
                                 at::native::scale_t scale_across) {
  const bool last = !input.is_contiguous();
  const auto format = last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const int64_t in_row = input.size(3) * (last ? input.size(1) : 1);
  if (input.scalar_type() != at::kFloat || output.scalar_type() != at::kFloat ||
      !input.is_contiguous(format) || !output.is_contiguous(format) || output.numel() == 0 ||
      in_row > std::numeric_limits<int32_t>::max() ||
      input.size(2) > std::numeric_limits<int32_t>::max()) {
    return false;
  }
  const int64_t channels = last ? input.size(1) : 1, images = input.size(0) * (last ? 1 : input.size(1));
  const int64_t times = channels < kFewChannels ? channels : 1;
  const TapsOf down(input.size(2), output.size(2), 1, align_corners, scale_down);
  const TapsOf across(input.size(3), output.size(3), times, align_corners, scale_across);
  const Bilinear of{input.data_ptr<float>(),
                    output.data_ptr<float>(),
                    input.size(2),
                    in_row,
                    output.size(2),
                    output.size(3) * channels,
                    channels / times,
                    down.taps(),
                    across.taps()};
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / of.out_row);
  at::parallel_for(0, images * of.out_height, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> rows(size_t(2 * of.out_row));
    interpolate_rows(of, begin, end, rows.data());
  });
  return true;
}

template <at::native::upsampling_bilinear2d kernel>
struct Faster<decltype(at::native::upsample_bilinear2d_kernel), kernel> {
  static void run(const at::Tensor& output, const at::Tensor& input, bool align_corners,
                  at::native::scale_t scale_down, at::native::scale_t scale_across) {
    if (!interpolate_bilinear(output, input, align_corners, scale_down, scale_across)) {
      kernel(output, input, align_corners, scale_down, scale_across);
    }
  }
  static constexpr auto value = &run;
};

} // namespace lta
