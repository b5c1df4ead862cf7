// See shortcuts.h.
#include "shortcuts.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/bmm.h>

namespace lta::shortcuts {
namespace {

// A batch of matrices, whichever dimensions it has, as one with three; undefined where that would
// be a copy.
at::Tensor batch_of(const at::Tensor& of) {
  if (of.dim() == 3) {
    return of;
  }
  const auto sizes = of.sizes();
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes.back();
  const at::DimVector flat{of.numel() / (rows * columns), rows, columns};
  const auto strides = at::detail::computeStride(sizes, of.strides(), flat);
  return strides ? view_of(of, flat, *strides, of.storage_offset()) : at::Tensor();
}

// matmul(self, other), of as many matrices on both sides
c10::IValue matmul(const Given& given) {
  if (!is_dense(given[0]) || !is_dense(given[1])) {
    return {};
  }
  const at::Tensor &one = given[0].toTensor(), &other = given[1].toTensor();
  const auto left = one.sizes(), right = other.sizes();
  const size_t dims = left.size();
  if (dims < 3 || right.size() != dims || one.numel() == 0 || other.numel() == 0 ||
      one.numel() > kMost || other.numel() > kMost ||
      left.slice(0, dims - 2) != right.slice(0, dims - 2) || left[dims - 1] != right[dims - 2]) {
    return {};
  }
  const at::Tensor first = batch_of(one), second = batch_of(other);
  if (!first.defined() || !second.defined()) {
    return {};
  }
  at::Tensor result = at::bmm(first, second);
  if (dims == 3) {
    return result;
  }
  Sizes sizes(left);
  sizes[dims - 1] = right[dims - 1];
  return view_of(result, sizes, strides_of(sizes), 0);
}

const Shortcut some[] = {{"aten::matmul", 2, 2, matmul}};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
