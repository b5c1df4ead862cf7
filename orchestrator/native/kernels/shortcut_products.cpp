// See shortcuts.h.
#include "shortcuts.h"
#include "small_products.h"

namespace lta::shortcuts {
namespace {

// Multiplications for a matrix: with fewer, PyTorch computes in another order (sgemm in gemm.cpp refuses
// them); with more, XNNPACK's kernels with AVX-512 are faster than what preparing them costs.
constexpr int64_t kLeastWork = 512, kMostWork = 64 * 1024;

// Whether matrices lie row by row, or column by column, as BLAS takes them: others are copied.
bool is_for_blas(at::IntArrayRef sizes, at::IntArrayRef strides) {
  const size_t row = sizes.size() - 2, column = row + 1;
  return (strides[column] == 1 && strides[row] >= sizes[column]) ||
      (strides[row] == 1 && strides[column] >= sizes[row]);
}

// matmul(self, other), of as many matrices on both sides. Of other processors the kernels that PyTorch's
// products come to may add in another order, as do those of vectors and of the smallest matrices.
c10::IValue matmul(const Given& given) {
#if defined(__x86_64__) || defined(__aarch64__)
  if (!is_dense(given[0]) || !is_dense(given[1])) {
    return {};
  }
  const at::Tensor &one = given[0].toTensor(), &other = given[1].toTensor();
  const auto left = one.sizes(), right = other.sizes();
  const size_t dims = left.size();
  if (one.scalar_type() != c10::kFloat || other.scalar_type() != c10::kFloat || dims < 3 ||
      right.size() != dims || one.numel() > kMost || other.numel() > kMost ||
      left.slice(0, dims - 2) != right.slice(0, dims - 2) || left[dims - 1] != right[dims - 2] ||
      !is_for_blas(left, one.strides()) || !is_for_blas(right, other.strides())) {
    return {};
  }
  const int64_t rows = left[dims - 2], inner = left[dims - 1], columns = right[dims - 1];
  Sizes sizes(left);
  sizes[dims - 1] = columns;
  const int64_t each = rows * columns, work = each * inner;
  if (rows < 3 || columns < 2 || inner > kMostInner || work < kLeastWork || work > kMostWork) {
    return {};
  }
  const int64_t count = one.numel() / (rows * inner);
  if (count == 0 || count * each > kMost) {
    return {};
  }
  at::Tensor result = fresh(sizes);
  const auto lefts = one.strides(), rights = other.strides();
  SmallProduct of{rows,
                  inner,
                  columns,
                  nullptr,
                  lefts[dims - 2],
                  lefts[dims - 1],
                  nullptr,
                  rights[dims - 2],
                  rights[dims - 1],
                  numbers_of<float>(result)};
  for (int64_t i = 0; i < count; ++i, of.to += each) {
    of.left = numbers_of<float>(one);
    of.right = numbers_of<float>(other);
    int64_t rest = i;
    for (size_t dim = dims - 2; dim-- > 0; rest /= left[dim]) {
      of.left += rest % left[dim] * lefts[dim];
      of.right += rest % left[dim] * rights[dim];
    }
    multiply_small(of);
  }
  return result;
#else
  return {};
#endif
}

const Shortcut some[] = {{"aten::matmul", 2, 2, matmul}};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
