// See shortcuts.h.
#include "shortcuts.h"

#include <cstring>
#include <utility>

#include <ATen/TensorUtils.h>

namespace lta::shortcuts {
namespace {

using at::Tensor;
using c10::IValue;

// The sizes that a view is to have, with one of -1 filled in. False where they are not for `count`
// numbers, of which there are some.
bool read_shape(const IValue& value, int64_t count, Sizes* sizes) {
  if (!read_ints(value, sizes)) {
    return false;
  }
  int64_t rest = count;
  int64_t* open = nullptr;
  for (int64_t& size : *sizes) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else if (size <= 0 || rest % size != 0) {
      return false;
    } else {
      rest /= size;
    }
  }
  if (open != nullptr) {
    *open = rest;
  }
  return open != nullptr || rest == 1;
}

float* copy_in_order(const float* from, at::IntArrayRef sizes, at::IntArrayRef strides, float* to) {
  const auto count = size_t(sizes[0]);
  for (size_t i = 0; i < count; ++i, from += strides[0]) {
    if (sizes.size() == 1) {
      *to++ = *from;
    } else if (sizes.size() == 2 && strides[1] == 1) {
      std::memcpy(to, from, size_t(sizes[1]) * sizeof(float));
      to += sizes[1];
    } else {
      to = copy_in_order(from, sizes.slice(1), strides.slice(1), to);
    }
  }
  return to;
}

// view(self, size), reshape(self, shape)
IValue view(const Given& given) {
  Sizes sizes;
  if (!is_dense(given[0])) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  const int64_t count = in_order(of);
  if (count == 0 || !read_shape(given[1], count, &sizes)) {
    return {};
  }
  return turn_into(of, sizes, strides_of(sizes), of.storage_offset());
}

IValue reshape(const Given& given) {
  IValue result = view(given);
  if (!result.isNone() || !is_dense(given[0])) {
    return result;
  }
  const Tensor& of = given[0].toTensor();
  const int64_t count = of.numel();
  Sizes shape;
  if (of.scalar_type() != at::kFloat || of.dim() == 0 || of.is_contiguous() || count == 0 ||
      count > kMost || !read_shape(given[1], count, &shape)) {
    return {};
  }
  const at::DimVector sizes(shape.begin(), shape.end());
  if (const auto strides = at::detail::computeStride(of.sizes(), of.strides(), sizes)) {
    return turn_into(of, sizes, *strides, of.storage_offset());
  }
  Tensor copy = fresh(shape);
  copy_in_order(numbers_of<float>(of), of.sizes(), of.strides(), numbers_of<float>(copy));
  return copy;
}

// permute(self, dims)
IValue permute(const Given& given) {
  Sizes dims;
  if (!is_dense(given[0]) || !read_ints(given[1], &dims)) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  const int64_t count = of.dim();
  if (int64_t(dims.size()) != count) {
    return {};
  }
  Sizes sizes, strides;
  uint32_t seen = 0;
  for (int64_t dim : dims) {
    if (!wrap(&dim, count) || (seen >> dim & 1) != 0) {
      return {};
    }
    seen |= uint32_t(1) << dim;
    sizes.add(of.sizes()[size_t(dim)]);
    strides.add(of.strides()[size_t(dim)]);
  }
  return turn_into(of, sizes, strides, of.storage_offset());
}

// transpose.int(self, dim0, dim1)
IValue transpose(const Given& given) {
  if (!is_dense(given[0]) || !given[1].isInt() || !given[2].isInt()) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  int64_t one = given[1].toInt(), other = given[2].toInt();
  if (!wrap(&one, of.dim()) || !wrap(&other, of.dim())) {
    return {};
  }
  Sizes sizes(of.sizes()), strides(of.strides());
  std::swap(sizes[size_t(one)], sizes[size_t(other)]);
  std::swap(strides[size_t(one)], strides[size_t(other)]);
  return turn_into(of, sizes, strides, of.storage_offset());
}

// A tensor without one of its dimensions, at one place of it; `make` is one of the two (shortcuts.h).
Tensor at_place(const Tensor& of, int64_t dim, int64_t place, decltype(view_of)& make) {
  Sizes sizes(of.sizes()), strides(of.strides());
  const int64_t offset = of.storage_offset() + place * strides[size_t(dim)];
  sizes.erase(dim);
  strides.erase(dim);
  return make(of, sizes, strides, offset);
}

// select.int(self, dim, index)
IValue select(const Given& given) {
  if (!is_dense(given[0]) || !given[1].isInt() || !given[2].isInt()) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  int64_t dim = given[1].toInt(), place = given[2].toInt();
  if (!wrap(&dim, of.dim()) || !wrap(&place, of.sizes()[size_t(dim)])) {
    return {};
  }
  return at_place(of, dim, place, turn_into);
}

// unbind.int(self, dim=0)
IValue unbind(const Given& given) {
  if (!is_dense(given[0]) || (given.has(1) && !given[1].isInt())) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  int64_t dim = given.has(1) ? given[1].toInt() : 0;
  if (!wrap(&dim, of.dim())) {
    return {};
  }
  c10::List<Tensor> parts;
  const int64_t count = of.sizes()[size_t(dim)];
  parts.reserve(size_t(count));
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(at_place(of, dim, i, view_of));
  }
  return parts;
}

// unsqueeze(self, dim)
IValue unsqueeze(const Given& given) {
  if (!is_dense(given[0]) || !given[1].isInt()) {
    return {};
  }
  const Tensor& of = given[0].toTensor();
  int64_t dim = given[1].toInt();
  if (!wrap(&dim, of.dim() + 1)) {
    return {};
  }
  Sizes sizes(of.sizes()), strides(of.strides());
  const int64_t stride = dim < of.dim() ? sizes[size_t(dim)] * strides[size_t(dim)] : 1;
  sizes.insert(dim, 1);
  strides.insert(dim, stride);
  return turn_into(of, sizes, strides, of.storage_offset());
}

const Shortcut some[] = {
    {"aten::view", 2, 2, view},
    {"aten::reshape", 2, 2, reshape},
    {"aten::permute", 2, 2, permute},
    {"aten::transpose.int", 3, 3, transpose},
    {"aten::select.int", 3, 3, select},
    {"aten::unbind.int", 1, 2, unbind},
    {"aten::unsqueeze", 2, 2, unsqueeze},
};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
