// Depthwise convolutions of more numbers than XNNPACK has kernels for: it takes those for convolutions
// of one channel, and computes 16 or 32 results to keep one.
#pragma once

#include <cstdint>
#include <vector>

#include <pthreadpool.h>

namespace lta {

// The most numbers of a depthwise kernel in XNNPACK (src/configs/dwconv-config.c).
constexpr int64_t kLargestWindow = 25;

// Thinner ones are left to XNNPACK, too.
constexpr int64_t kLeastChannels = 16;

// Which numbers of an image a result takes along one dimension, and which of the kernel's is the first.
struct Taps {
  int64_t first, count, skipped;
};

struct LargeWindows {
  std::vector<float> kernel; // of all channels, number by number; behind it what is added
  int64_t channels = 0, width = 0; // of the kernel
  int64_t dilation[2] = {1, 1};
  float least = 0, most = 0;
  // of images of one size
  int64_t in_height = 0, in_width = 0;
  std::vector<Taps> down, across;
};

// Not on x86-64 at its baseline, which is not worth the bytes: XNNPACK computes them there.
bool computes_large_windows();

// kernel: channel by channel; summands: null for none
void pack_large_windows(const float* kernel, const float* summands, int64_t numbers,
                        LargeWindows* of);

// Both have their channels last.
void convolve(const LargeWindows& of, int64_t batch, const float* from, float* to,
              pthreadpool_t pool);

} // namespace lta
