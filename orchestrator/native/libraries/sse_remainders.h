// Read first by XNNPACK's SSE kernels that add four products at a time (f32-gemm, f32-igemm, 4x2c4).
//
// Of what is left behind the last four they load four all the same, and set those to 0 whose weight
// is 0, as packing pads weights. An infinity times such a weight of the model's own was 0, and not NaN.
// What counts instead are the `k` bytes that the kernel has left.
#pragma once

#include "sse_limits.h"

#include <stddef.h>

static inline __m128 lta_lanes_behind(size_t bytes) {
  static const int lanes[8] = {0, 0, 0, 0, -1, -1, -1, -1};
  return _mm_loadu_ps((const float*)lanes + (4 - bytes / sizeof(float)));
}

#define _mm_cmpeq_ps(zero, weights) lta_lanes_behind(k)
