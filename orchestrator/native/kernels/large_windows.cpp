#define LTA_SIXTEEN_LANES
#include "large_windows.h"
#include "levels.h"
#include "maths.h"
#include "pool.h"

#include <algorithm>

namespace lta {

using namespace maths;

static_assert(kLanes <= kLeastChannels, "see convolve_row_in_lanes");

namespace {

struct Row {
  const LargeWindows& of;
  const float* from; // the image
  float* to;
  Taps down;
};

// `parts` vectors of channels at once: sums that do not wait for each other.
template <int parts>
LTA_INLINE void convolve_channels(const Row& row, const Taps& across, int64_t channel, float* to) {
  const LargeWindows& of = row.of;
  const int64_t channels = of.channels, next_tap = of.dilation[1] * channels;
  const float* line = row.from + channel +
      (row.down.first * of.in_width + across.first) * channels;
  const float* kernel =
      of.kernel.data() + channel + (row.down.skipped * of.width + across.skipped) * channels;
  const float* const added = of.kernel.data() + of.kernel.size() - size_t(channels) + channel;
  Floats sums[parts];
  for (int i = 0; i < parts; ++i) {
    sums[i] = load(added + i * kLanes, kLanes, 0);
  }
#pragma clang loop unroll(disable)
  for (int64_t y = 0; y < row.down.count; ++y) {
    const float *at = line, *factor = kernel;
#pragma clang loop unroll(disable)
    for (int64_t x = 0; x < across.count; ++x, at += next_tap, factor += channels) {
      for (int i = 0; i < parts; ++i) {
        sums[i] += load(at + i * kLanes, kLanes, 0) * load(factor + i * kLanes, kLanes, 0);
      }
    }
    line += of.dilation[0] * of.in_width * channels;
    kernel += of.width * channels;
  }
  for (int i = 0; i < parts; ++i) {
    Floats sum = sums[i] < all(of.least) ? all(of.least) : sums[i]; // NaN stays
    sum = sum > all(of.most) ? all(of.most) : sum;
    store(to + channel + i * kLanes, kLanes, sum);
  }
}

LTA_INLINE void convolve_row_in_lanes(const Row& row) {
  constexpr int64_t kParts = 2;
  const int64_t channels = row.of.channels;
  float* to = row.to;
  for (const Taps& across : row.of.across) {
    int64_t channel = 0;
    for (; channel + kParts * kLanes <= channels; channel += kParts * kLanes) {
      convolve_channels<kParts>(row, across, channel, to);
    }
    // the last ones again with some before them: there are at least as many as lanes
    for (; channel < channels; channel += kLanes) {
      convolve_channels<1>(row, across, std::min(channel, channels - kLanes), to);
    }
    to += channels;
  }
}

#if defined(__x86_64__)
LTA_AT_WIDEST(convolve_row, (const Row& row), (row))
LTA_WIDE void convolve_row_wide(const Row& row) { convolve_row_in_lanes(row); }
void convolve_row(const Row& row) {
  LTA_IF_WIDEST(convolve_row, (row)) convolve_row_wide(row);
}
#else
void convolve_row(const Row& row) { convolve_row_in_lanes(row); }
#endif

} // namespace

bool computes_large_windows() {
#if defined(__x86_64__)
  return has_wide_lanes();
#else
  return true;
#endif
}

__attribute__((minsize)) void pack_large_windows(const float* kernel, const float* summands,
                                                 int64_t numbers, LargeWindows* of) {
  const int64_t channels = of->channels;
  of->kernel.resize(size_t((numbers + 1) * channels));
  for (int64_t channel = 0; channel < channels; ++channel) {
    for (int64_t i = 0; i < numbers; ++i) {
      of->kernel[size_t(i * channels + channel)] = kernel[channel * numbers + i];
    }
    of->kernel[size_t(numbers * channels + channel)] = summands == nullptr ? 0 : summands[channel];
  }
}

void convolve(const LargeWindows& of, int64_t batch, const float* from, float* to,
              pthreadpool_t pool) {
  const auto height = int64_t(of.down.size()), width = int64_t(of.across.size());
  for_ranges(pool, batch * height, [&](int64_t, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      convolve_row({of, from + row / height * of.in_height * of.in_width * of.channels,
                    to + row * width * of.channels, of.down[size_t(row % height)]});
    }
  });
}

} // namespace lta
