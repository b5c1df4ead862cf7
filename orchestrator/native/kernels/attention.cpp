// The scores of some queries with some keys are computed at once, and become weights while they are
// near: the result so far is multiplied by what its largest score has grown by (as FlashAttention does,
// arXiv:2205.14135, algorithm 1).
#include "attention.h"

#include "attention_rows.h"
#include "pool.h"
#include "vectors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <ATen/native/CPUBlas.h>

namespace lta {
namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();
// So many keys at once, at most.
constexpr int64_t kKeys = 512;
// Of fewer multiplications, or fewer rows, products do not gain by packing a matrix.
constexpr int64_t kPacked = 4096;
constexpr int64_t kPackedRows = 3;

// How a tensor's batches, heads and rows lie, in numbers; a row's own lie side by side.
struct Apart {
  int64_t batch, head, row;
};

struct Attention {
  int64_t heads, queries, keys, size;
  bool causal;
  float scale;
  const float *query, *key, *value, *mask;
  float *to, *logs;
  Apart of_query, of_key, of_value, of_mask, of_to, of_logs;
  int64_t mask_key;

  // So many queries at once: for each such block keys are packed, and its scores are near while they
  // become weights.
  int64_t rows() const {
    return std::max<int64_t>(1, std::min<int64_t>(queries, queries >= 768 ? 256 : 64));
  }
  int64_t blocks() const { return (queries + rows() - 1) / rows(); } // of each head
  int64_t memory() const { return rows() * (std::min(keys, kKeys) + 3); }
  void run(int64_t index, float* memory) const;
};

// to = scale from matrix, or matrix^T, added to what is there or not. `from` has rows of `inner`
// numbers, `to` of `columns`; `..._row`: how rows lie apart.
void multiply(bool transpose, int64_t columns, int64_t rows, int64_t inner, float scale,
              const float* matrix, int64_t matrix_row, const float* from, int64_t from_row, bool add,
              float* to, int64_t to_row) {
  using at::native::TransposeType;
  const float kept = add ? 1.0f : 0.0f;
  if (rows < kPackedRows || columns * rows * inner < kPacked) {
    for (int64_t row = 0; row < rows; ++row) {
      sgemv(transpose, transpose ? inner : columns, transpose ? columns : inner, scale, matrix,
            matrix_row, from + row * from_row, 1, kept, to + row * to_row, 1);
    }
    return;
  }
  at::native::cpublas::gemm(transpose ? TransposeType::Transpose : TransposeType::NoTranspose,
                            TransposeType::NoTranspose, columns, rows, inner, scale, matrix,
                            matrix_row, from, from_row, kept, to, to_row);
}

// Some queries of one head: block `index` of all.
void Attention::run(int64_t index, float* memory) const {
  const int64_t head = index / blocks() % heads, batch = index / blocks() / heads;
  const int64_t from = index % blocks() * this->rows();
  const int64_t rows = std::min(this->rows(), queries - from);
  const auto place = [=](const Apart& of) { return batch * of.batch + head * of.head; };
  const float* const queries_of = query + place(of_query) + from * of_query.row;
  float* const results = to + place(of_to) + from * of_to.row;
  float* const most = memory;
  float* const sum = most + this->rows();
  float* const kept = sum + this->rows();
  float* const scores = kept + this->rows();
  std::fill(most, most + rows, kLeast);
  std::fill(sum, sum + rows, 0.0f);
  const int64_t end = causal ? std::min(from + rows, keys) : keys;
  for (int64_t at = 0; at < end; at += kKeys) {
    const int64_t count = std::min(kKeys, end - at);
    multiply(true, count, rows, size, scale, key + place(of_key) + at * of_key.row, of_key.row,
             queries_of, of_query.row, false, scores, count);
    const float* const masked = mask == nullptr
        ? nullptr
        : mask + place(of_mask) + from * of_mask.row + at * mask_key;
    weigh({scores, rows, count, causal ? from + 1 - at : keys, masked, of_mask.row, mask_key, most,
           sum, kept});
    if (at > 0) {
      scale_rows(results, of_to.row, rows, size, kept);
    }
    multiply(false, size, rows, count, 1, value + place(of_value) + at * of_value.row, of_value.row,
             scores, count, at > 0, results, of_to.row);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const float all = sum[row] == 0 ? 1 : sum[row];
    kept[row] = 1 / all;
    logs[place(of_logs) + (from + row) * of_logs.row] =
        (most[row] == kLeast ? 0 : most[row]) + std::log(all);
  }
  scale_rows(results, of_to.row, rows, size, kept);
}

Apart apart_of(const at::Tensor& heads) {
  return {heads.stride(0), heads.stride(1), heads.stride(2)};
}

bool side_by_side(const at::Tensor& rows) { return rows.stride(3) == 1 || rows.size(3) <= 1; }

// Of a mask's dimension, counted from the last one; 0 where it is the same for all.
int64_t mask_stride(const at::Tensor& mask, int64_t from_last, int64_t size) {
  if (mask.dim() < from_last || mask.size(-from_last) == 1) {
    return 0;
  }
  TORCH_CHECK(mask.size(-from_last) == size, "attention: a mask of another size");
  return mask.stride(-from_last);
}

} // namespace

void attention(const at::Tensor& to, const at::Tensor& logs, const at::Tensor& query,
               const at::Tensor& key, const at::Tensor& value, bool causal, const at::Tensor* mask,
               float scale) {
  const int64_t batches = query.size(0), heads = query.size(1), queries = query.size(2);
  const int64_t keys = key.size(2), size = query.size(3);
  TORCH_CHECK(keys > 0 && key.sizes() == value.sizes() && key.size(0) == batches &&
                  key.size(1) == heads && key.size(3) == size && side_by_side(query) &&
                  side_by_side(key) && side_by_side(value) && side_by_side(to),
              "attention: query, key and value do not fit");
  Attention of{heads, queries, keys, size, causal, scale, query.data_ptr<float>(),
               key.data_ptr<float>(), value.data_ptr<float>(), nullptr, to.data_ptr<float>(),
               logs.data_ptr<float>(), apart_of(query), apart_of(key), apart_of(value), {},
               {to.stride(0), to.stride(2), to.stride(1)},
               {logs.stride(0), logs.stride(2), logs.stride(1)}, 0};
  if (mask != nullptr && mask->numel() > 0) {
    of.mask = mask->data_ptr<float>();
    of.of_mask = {mask_stride(*mask, 4, batches), mask_stride(*mask, 3, heads),
                  mask_stride(*mask, 2, queries)};
    of.mask_key = mask_stride(*mask, 1, keys);
    TORCH_CHECK(of.mask_key <= 1, "attention: a mask whose numbers lie apart");
  }
  const int64_t blocks = batches * heads * of.blocks();
  if (blocks == 0) {
    return;
  }
  const pthreadpool_t pool =
      pool_for(2.0 * double(batches * heads) * double(queries) * double(keys) * double(size));
  const std::unique_ptr<float[]> memory(
      new float[size_t(count_ranges(pool, blocks) * of.memory())]);
  for_ranges(pool, blocks, [&](int64_t range, int64_t first, int64_t last) {
    for (int64_t at = first; at < last; ++at) {
      of.run(at, memory.get() + range * of.memory());
    }
  });
}

} // namespace lta
