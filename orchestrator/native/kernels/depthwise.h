// Depthwise convolutions of 8-bit integers, where a kernel of ours is faster than XNNPACK's: those widen
// each number to 32 bits before they multiply it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pthreadpool.h>

namespace lta {

// What a layer is made of. Numbers of two are those of rows, then those of columns.
struct DepthwiseLayer {
  size_t channels;
  int64_t size[2], stride[2], padding[2], dilation[2]; // size: the kernel's
  const int8_t* kernel;  // all weights of a channel after those of the other
  const float* factors;  // of each channel's sums
  const int32_t* bias;
  int8_t input_zero, output_zero, least;
};

// Images, channels last: rows and columns of the input, and of the result.
struct DepthwiseImages {
  const int8_t* from;
  int8_t* to;
  int64_t batch, in[2], out[2];
};

class Depthwise {
 public:
  virtual ~Depthwise() = default;
  virtual void run(const DepthwiseImages& images, pthreadpool_t pool) const = 0;
};

// Null where the layer is for XNNPACK. The pointer is null in a library without the level.
extern std::unique_ptr<Depthwise> (*make_depthwise)(const DepthwiseLayer& of);

} // namespace lta
