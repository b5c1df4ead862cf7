#include "batches.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

namespace lta {
namespace {

using at::native::TransposeType;

// How BLAS takes a batch's matrices, which lie row by row: as transposed ones.
struct Matrices {
  const float* first;
  int64_t apart; // one and the next
  TransposeType transpose;
  int64_t leading;
  bool fits;
};

Matrices matrices_of(const at::Tensor& batch) {
  const auto sizes = batch.sizes(), strides = batch.strides();
  const bool rows = strides[2] == 1 && (sizes[1] == 1 || strides[1] >= sizes[2]);
  const bool columns = strides[1] == 1 && (sizes[2] == 1 || strides[2] >= sizes[1]);
  const int64_t leading = rows ? (sizes[1] == 1 ? sizes[2] : strides[1])
                               : (sizes[2] == 1 ? sizes[1] : strides[2]);
  return {batch.data_ptr<float>(), strides[0],
          rows ? TransposeType::NoTranspose : TransposeType::Transpose, leading, rows || columns};
}

} // namespace

bool multiply_batches(const at::Tensor& to, const at::Tensor& one, const at::Tensor& other,
                      const at::Scalar& beta, const at::Scalar& alpha) {
  if (to.scalar_type() != at::kFloat || one.scalar_type() != at::kFloat ||
      other.scalar_type() != at::kFloat || !to.is_contiguous()) {
    return false;
  }
  const Matrices left = matrices_of(one), right = matrices_of(other);
  if (!left.fits || !right.fits) {
    return false;
  }
  const int64_t batches = to.size(0), rows = to.size(1), columns = to.size(2), inner = one.size(2);
  const float scale = alpha.to<float>(), kept = beta.to<float>();
  float* results = to.data_ptr<float>();
  // as bmm_out_or_baddbmm_ decides
  const bool divided = batches >= 4 && rows >= 4 && columns >= 16 && inner >= 16;
  at::parallel_for(0, batches, divided ? 1 : batches, [&](int64_t from, int64_t end) {
    for (int64_t i = from; i < end; ++i) {
      at::native::cpublas::gemm(right.transpose, left.transpose, columns, rows, inner, scale,
                                right.first + i * right.apart, right.leading,
                                left.first + i * left.apart, left.leading, kept,
                                results + i * rows * columns, columns);
    }
  });
  return true;
}

} // namespace lta
