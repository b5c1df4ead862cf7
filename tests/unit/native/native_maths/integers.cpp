// What tests/unit/native/test_native_integers.py runs: kernels of 8-bit integers.
#include "depthwise_vnni.cpp"
#include "quantiser.h"

#include <vector>

namespace lta {
std::unique_ptr<Depthwise> (*make_depthwise)(const DepthwiseLayer& of);
}

extern "C" {

// Rows and columns: of the input, the kernel, stride, padding, dilation, the result. False where the layer
// is not for the kernel.
bool depthwise(int vnni, int64_t batch, int64_t channels, const int64_t (*sizes)[2], const int8_t* from,
               const int8_t* kernel, const float* factors, const int32_t* bias, int input_zero,
               int output_zero, int least, int8_t* to) {
  chosen.use_x86_avx512vnni = vnni != 0;
  const auto& [in, size, stride, padding, dilation, out] = *reinterpret_cast<const int64_t(*)[6][2]>(sizes);
  // what is packed is the kernel's own
  std::vector<int8_t> given(kernel, kernel + channels * size[0] * size[1]);
  const auto made = lta::make_depthwise(
      {size_t(channels), {size[0], size[1]}, {stride[0], stride[1]}, {padding[0], padding[1]},
       {dilation[0], dilation[1]}, given.data(), factors, bias, int8_t(input_zero),
       int8_t(output_zero), int8_t(least)});
  given.assign(given.size(), 99);
  if (made) {
    made->run({from, to, batch, {in[0], in[1]}, {out[0], out[1]}}, nullptr);
  }
  return made != nullptr;
}

void quantise_row(const float* from, uint8_t* to, int64_t count, float inverse, int zero, int flip) {
  lta::Quantiser{inverse, int16_t(zero), uint8_t(flip)}.row(from, to, count);
}
void quantise_image(const float* from, uint8_t* to, int64_t channels, int64_t area, float inverse,
                    int zero, int flip) {
  lta::Quantiser{inverse, int16_t(zero), uint8_t(flip)}.image(from, to, channels, area);
}
}
