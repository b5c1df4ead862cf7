// Read first by aten/src/ATen/native/mkl/SpectralOps.cpp: its kernels, with transforms of ours
// (pocketfft_hdronly.h beside this), and what upstream's do not ask of their arguments. Its operators
// `_fft_r2c`, `_fft_c2r` and `_fft_c2c` trust their callers; a model may be the caller.
#pragma once

#include <ATen/Config.h>
#include <ATen/NativeFunctions.h>

#include <algorithm>

#undef AT_POCKETFFT_ENABLED
#define AT_POCKETFFT_ENABLED() 1

namespace at {
namespace native {

Tensor unchecked_c2r(const Tensor&, IntArrayRef, int64_t, int64_t);
Tensor unchecked_r2c(const Tensor&, IntArrayRef, int64_t, bool);
Tensor unchecked_c2c(const Tensor&, IntArrayRef, int64_t, bool);

// Dimensions that there are, each once, and numbers along them.
inline void check_transformed(const Tensor& self, IntArrayRef dims) {
  TORCH_CHECK(!dims.empty(), "fft: no dimension");
  for (size_t i = 0; i < dims.size(); ++i) {
    TORCH_CHECK(dims[i] >= 0 && dims[i] < self.dim(), "fft: no such dimension");
    TORCH_CHECK(std::count(dims.begin(), dims.end(), dims[i]) == 1, "fft: a dimension twice");
    TORCH_CHECK(self.size(dims[i]) >= 1, "fft: nothing to transform");
  }
}

Tensor _fft_c2r_mkl(const Tensor& self, IntArrayRef dims, int64_t norm, int64_t last) {
  check_transformed(self, dims);
  TORCH_CHECK(self.is_complex(), "fft: no complex numbers");
  TORCH_CHECK(last >= 1 && last / 2 + 1 <= self.size(dims.back()), "fft: too few numbers");
  return unchecked_c2r(self, dims, norm, last);
}

Tensor _fft_r2c_mkl(const Tensor& self, IntArrayRef dims, int64_t norm, bool onesided) {
  check_transformed(self, dims);
  return unchecked_r2c(self, dims, norm, onesided);
}

Tensor _fft_c2c_mkl(const Tensor& self, IntArrayRef dims, int64_t norm, bool forward) {
  check_transformed(self, dims);
  return unchecked_c2c(self, dims, norm, forward);
}

} // namespace native
} // namespace at

#define _fft_c2r_mkl unchecked_c2r
#define _fft_r2c_mkl unchecked_r2c
#define _fft_c2c_mkl unchecked_c2c
