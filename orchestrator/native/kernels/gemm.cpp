#include "gemm.h"
#include "lanes.h"
#include "pool.h"

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

float dot(const float* one, const float* other, int64_t count) {
  Lanes sums[4] = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    for (int lane = 0; lane < 4; ++lane) {
      sums[lane] += lanes_at(one + i + 4 * lane) * lanes_at(other + i + 4 * lane);
    }
  }
  for (; i + 4 <= count; i += 4) {
    sums[0] += lanes_at(one + i) * lanes_at(other + i);
  }
  const Lanes all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  float sum = (all[0] + all[1]) + (all[2] + all[3]);
  for (; i < count; ++i) {
    sum += one[i] * other[i];
  }
  return sum;
}

struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  float alpha;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float beta;
  float* c;
  int64_t ldc;
};

// A product's columns [m, ...) and rows [n, ...): a product of its own.
Product part_of(const Product& of, int64_t m, int64_t wide, int64_t n, int64_t high) {
  Product part = of;
  part.a += of.transpose_a ? m * of.lda : m;
  part.b += of.transpose_b ? n : n * of.ldb;
  part.c += n * of.ldc + m;
  part.m = wide;
  part.n = high;
  return part;
}

void multiply_vectors(const Product& of) {
  for (int64_t j = 0; j < of.n; ++j) {
    for (int64_t i = 0; i < of.m; ++i) {
      const float product = of.alpha * dot(of.a + i * of.lda, of.b + j * of.ldb, of.k);
      float& to = of.c[j * of.ldc + i];
      to = of.beta == 0 ? product : of.beta * to + product;
    }
  }
}

// What multiplies, and the memory that a part of a product takes meanwhile, in floats.
struct Multiplier {
  const xnn_gemm_config* config;
  xnn_f32_gemm_minmax_ukernel_fn kernel;
  xnn_f32_minmax_params params;
  int64_t mr, nr;

  int64_t block(const Product& of) const {
    return std::max(nr, std::min((of.m + nr - 1) / nr * nr, kPanel / (of.k + 1) / nr * nr));
  }
  size_t panel(const Product& of) const { return size_t(block(of) * (of.k + 1)); }
  size_t rows(const Product& of) const { return of.transpose_b ? size_t(mr * of.k) : 0; }
  // Kernels load packed weights as aligned vectors, and may read a vector past the last one.
  size_t memory(const Product& of) const {
    const size_t tile = of.beta == 0 ? 0 : size_t(mr * block(of));
    return (panel(of) + rows(of) + tile + 64 + 15) / 16 * 16;
  }
  void multiply(const Product& of, float* memory) const;
};

void Multiplier::multiply(const Product& of, float* memory) const {
  const int64_t block = this->block(of);
  float* const packed = memory;
  float* const gathered = packed + panel(of) + 16;
  float* const made = gathered + rows(of) + 16;
  for (int64_t from = 0; from < of.m; from += block) {
    const int64_t count = std::min(block, of.m - from);
    pack(of.transpose_a, of.a, of.lda, from, count, of.k, nr, of.alpha, packed);
    for (int64_t row = 0; row < of.n; row += mr) {
      const int64_t high = std::min(mr, of.n - row);
      const float* left = of.b + row * of.ldb;
      int64_t stride = of.ldb;
      if (of.transpose_b) { // op(B)^T's rows are rows of B, which lie apart
        for (int64_t l = 0; l < of.k; ++l) {
          for (int64_t r = 0; r < high; ++r) {
            gathered[r * of.k + l] = of.b[l * of.ldb + row + r];
          }
        }
        left = gathered;
        stride = of.k;
      }
      float* to = of.c + row * of.ldc + from;
      const size_t bytes = sizeof(float);
      const bool direct = of.beta == 0;
      kernel(size_t(high), size_t(count), size_t(of.k) * bytes, left, size_t(stride) * bytes,
             packed, direct ? to : made, size_t(direct ? of.ldc : block) * bytes,
             size_t(nr) * bytes, &params);
      if (!direct) {
        for (int64_t r = 0; r < high; ++r) {
          for (int64_t i = 0; i < count; ++i) {
            to[r * of.ldc + i] = of.beta * to[r * of.ldc + i] + made[r * block + i];
          }
        }
      }
    }
  }
}

// A product in parts of its columns, or of its rows where these are more: each for a thread.
struct Parts {
  const Product& all;
  const Multiplier& by;
  int64_t count;
  bool of_rows;
  int64_t wide;
  float* memory;
  size_t each = 0;

  void cut() {
    const int64_t columns = (all.m + by.nr - 1) / by.nr, rows = (all.n + by.mr - 1) / by.mr;
    of_rows = columns < 4 * count && rows > columns;
    const int64_t tiles = of_rows ? rows : columns;
    const int64_t most = (tiles + count - 1) / count;
    wide = most * (of_rows ? by.mr : by.nr);
    count = (tiles + most - 1) / most;
  }
  // The first is the largest.
  Product at(int64_t index) const {
    const int64_t from = index * wide;
    return of_rows ? part_of(all, 0, all.m, from, std::min(wide, all.n - from))
                   : part_of(all, from, std::min(wide, all.m - from), 0, all.n);
  }
};

} // namespace

bool sgemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, float alpha,
           const float* a, int64_t lda, const float* b, int64_t ldb, float beta, float* c,
           int64_t ldc) {
  if (m <= 0 || n <= 0 || k <= 0) {
    return false;
  }
  const Product all{transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc};
  // Vectors that lie side by side need no packing.
  if ((n == 1 || m == 1) && transpose_a && !transpose_b) {
    multiply_vectors(all);
    return true;
  }
  // A row of op(A)^T is read once: packing it would read and write it besides.
  if (n < 3 || m * n * k < 512) {
    return false;
  }
  Multiplier by;
  by.config = xnn_init_f32_gemm_config();
  if (by.config == nullptr || by.config->log2_kr != 0 || by.config->log2_sr != 0) {
    return false;
  }
  by.mr = by.config->mr;
  by.nr = by.config->nr;
  by.kernel = reinterpret_cast<xnn_f32_gemm_minmax_ukernel_fn>(
      by.config->minmax.gemm[by.mr - 1].function[XNN_UARCH_DEFAULT]);
  const float infinity = std::numeric_limits<float>::infinity();
  by.config->init.f32(&by.params, -infinity, infinity);

  const pthreadpool_t pool = pool_for(double(m) * double(n) * double(k));
  Parts parts{all, by, int64_t(pthreadpool_get_threads_count(pool)), false, 0, nullptr};
  parts.cut();
  parts.each = by.memory(parts.at(0));
  const size_t floats = parts.each * size_t(parts.count) + 16;
  const std::unique_ptr<float[]> memory(new (std::nothrow) float[floats]);
  if (!memory) {
    return false;
  }
  parts.memory = memory.get() + (64 - uintptr_t(memory.get()) % 64) / sizeof(float);
  pthreadpool_parallelize_1d(
      pool,
      [](void* of, size_t index) {
        const auto& parts = *static_cast<const Parts*>(of);
        parts.by.multiply(parts.at(int64_t(index)), parts.memory + index * parts.each);
      },
      &parts, size_t(parts.count), 0);
  return true;
}

} // namespace lta
