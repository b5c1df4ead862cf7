#include "gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include <xnnpack/config.h>

namespace lta {
namespace {

// Of a product's rows: C^T = op(B)^T op(A)^T lies row by row, n x m. Below, `rows` of it are n, its
// columns m, and op(A)^T is packed as the weights of a layer.

// Packed weights that a core's cache holds, in floats.
constexpr int64_t kPanel = 48 * 1024;

// op(A)^T's columns [from, from + count) in XNNPACK's order: for each tile of nr columns a bias for
// each, then for each of k rows nr weights (xnn_pack_f32_gemm_gio_w, src/packing.cc).
void pack(bool transpose, const float* a, int64_t lda, int64_t from, int64_t count, int64_t k,
          int64_t nr, float alpha, float* to) {
  for (int64_t tile = 0; tile < count; tile += nr) {
    const int64_t wide = std::min(nr, count - tile);
    std::memset(to, 0, size_t(nr) * sizeof(float));
    to += nr;
    if (wide < nr) {
      std::memset(to, 0, size_t(nr * k) * sizeof(float));
    }
    if (transpose) { // a column of op(A)^T is a column of A
      for (int64_t i = 0; i < wide; ++i) {
        const float* column = a + (from + tile + i) * lda;
        for (int64_t l = 0; l < k; ++l) {
          to[l * nr + i] = alpha * column[l];
        }
      }
    } else {
      for (int64_t l = 0; l < k; ++l) {
        const float* row = a + l * lda + from + tile;
        for (int64_t i = 0; i < wide; ++i) {
          to[l * nr + i] = alpha * row[i];
        }
      }
    }
    to += nr * k;
  }
}

typedef float Lanes __attribute__((vector_size(16)));

inline Lanes load(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

float dot(const float* one, const float* other, int64_t count) {
  Lanes sums[4] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += load(one + i + 4 * lane) * load(other + i + 4 * lane);
    }
  }
  for (; i + 4 <= count; i += 4) {
    sums[0] += load(one + i) * load(other + i);
  }
  const Lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = (all[0] + all[1]) + (all[2] + all[3]);
  for (; i < count; ++i) {
    sum += one[i] * other[i];
  }
  return sum;
}

} // namespace

bool sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
           const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
           int64_t ldc) {
  if (m <= 0 || n <= 0 || k <= 0) {
    return false;
  }
  // Vectors that lie side by side need no packing.
  if ((n == 1 || m == 1) && transpose_a && !transpose_b) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        const float product = alpha * dot(a + i * lda, b + j * ldb, k);
        float& to = c[j * ldc + i];
        to = beta == 0 ? product : beta * to + product;
      }
    }
    return true;
  }
  // A row of op(A)^T is read once: packing it would read and write it besides.
  if (n < 3 || m * n * k < 512) {
    return false;
  }
  const xnn_gemm_config* config = xnn_init_f32_gemm_config();
  if (config == nullptr || config->log2_kr != 0 || config->log2_sr != 0) {
    return false;
  }
  const int64_t mr = config->mr, nr = config->nr;
  const auto kernel = reinterpret_cast<xnn_f32_gemm_minmax_ukernel_fn>(
      config->minmax.gemm[mr - 1].function[XNN_UARCH_DEFAULT]);
  xnn_f32_minmax_params params;
  const float infinity = std::numeric_limits<float>::infinity();
  config->init.f32(&params, -infinity, infinity);

  const int64_t block = std::max(nr, std::min((m + nr - 1) / nr * nr, kPanel / (k + 1) / nr * nr));
  const size_t panel = size_t(block * (k + 1));
  const size_t rows = transpose_b ? size_t(mr * k) : 0, tile = beta == 0 ? 0 : size_t(mr * block);
  // Kernels load packed weights as aligned vectors, and may read a vector past the last one.
  const std::unique_ptr<float[]> memory(new (std::nothrow) float[panel + rows + tile + 64]);
  if (!memory) {
    return false;
  }
  float* const packed = memory.get() + (64 - uintptr_t(memory.get()) % 64) / sizeof(float);
  float* const gathered = packed + panel + 16;
  float* const made = gathered + rows + 16;
  for (int64_t from = 0; from < m; from += block) {
    const int64_t count = std::min(block, m - from);
    pack(transpose_a, a, lda, from, count, k, nr, alpha, packed);
    for (int64_t row = 0; row < n; row += mr) {
      const int64_t high = std::min(mr, n - row);
      const float* left = b + row * ldb;
      int64_t stride = ldb;
      if (transpose_b) { // op(B)^T's rows are rows of B, which lie apart
        for (int64_t l = 0; l < k; ++l) {
          for (int64_t r = 0; r < high; ++r) {
            gathered[r * k + l] = b[l * ldb + row + r];
          }
        }
        left = gathered;
        stride = k;
      }
      float* to = c + row * ldc + from;
      const size_t bytes = sizeof(float);
      kernel(size_t(high), size_t(count), size_t(k) * bytes, left, size_t(stride) * bytes, packed,
             beta == 0 ? to : made, size_t(beta == 0 ? ldc : block) * bytes, size_t(nr) * bytes,
             &params);
      if (beta != 0) {
        for (int64_t r = 0; r < high; ++r) {
          for (int64_t i = 0; i < count; ++i) {
            to[r * ldc + i] = beta * to[r * ldc + i] + made[r * block + i];
          }
        }
      }
    }
  }
  return true;
}

} // namespace lta
