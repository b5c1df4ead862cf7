// See shortcuts.h.
#include "lanes.h"
#include "shortcuts.h"

#include <algorithm>
#include <cstring>

#include <c10/core/DefaultDtype.h>

namespace lta::shortcuts {
namespace {

using at::Tensor;
using c10::IValue;

// zeros(size, dtype=None, layout=None, device=None, pin_memory=None)
IValue zeros(const Given& given) {
  Sizes sizes;
  if (!read_ints(given[0], &sizes) || !(given.lacks(2) || (given[2].isInt() && given[2].toInt() == 0)) ||
      !(given.lacks(3) || (given[3].isDevice() && given[3].toDevice().is_cpu())) ||
      !(given.lacks(4) || given.is_false(4)) || !(given.lacks(1) || given[1].isInt())) {
    return {};
  }
  const auto dtype = given.lacks(1) ? c10::get_default_dtype_as_scalartype()
                                    : c10::ScalarType(given[1].toInt());
  if (dtype != c10::kFloat && dtype != c10::kLong && dtype != c10::kBool) {
    return {};
  }
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size <= 0 || size > kMost || (count *= size) > kMost) {
      return {};
    }
  }
  Tensor result = fresh(sizes, dtype);
  std::memset(numbers_of<char>(result), 0, size_t(count) * result.itemsize());
  return result;
}

// embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False): what is behind
// the indices is for training.
IValue embedding(const Given& given) {
  const int64_t count = in_order(given[1], c10::kLong);
  if (count == 0 || !is_dense(given[0])) {
    return {};
  }
  const Tensor &weight = given[0].toTensor(), &indices = given[1].toTensor();
  if (weight.dim() != 2 || !weight.is_contiguous() || weight.sizes()[1] == 0 ||
      weight.sizes()[1] > kMost || count * weight.sizes()[1] > kMost) {
    return {};
  }
  const int64_t rows = weight.sizes()[0];
  const int64_t* const places = numbers_of<int64_t>(indices);
  if (std::any_of(places, places + count, [rows](int64_t at) { return at < 0 || at >= rows; })) {
    return {};
  }
  Sizes sizes(indices.sizes());
  sizes.add(weight.sizes()[1]);
  Tensor result = fresh(sizes, weight.scalar_type());
  const size_t row = size_t(weight.sizes()[1]) * weight.itemsize();
  const char* const from = numbers_of<char>(weight);
  char* to = numbers_of<char>(result);
  for (int64_t i = 0; i < count; ++i, to += row) {
    std::memcpy(to, from + size_t(places[i]) * row, row);
  }
  return result;
}

struct Factor {
  float one;
  Lanes some(int64_t) const { return {one, one, one, one}; }
  float at(int64_t) const { return one; }
};

struct Factors {
  const float* each;
  Lanes some(int64_t index) const { return lanes_at(each + index); }
  float at(int64_t index) const { return each[index]; }
};

// In lanes: where the source is compiled for size, no loop becomes one of vectors.
template <class By>
void multiply(const float* from, By by, float* to, int64_t count) {
  constexpr int64_t kLanes = 4, kAtOnce = 4 * kLanes;
  int64_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
#pragma clang loop unroll(full)
    for (int64_t j = i; j < i + kAtOnce; j += kLanes) {
      put(lanes_at(from + j) * by.some(j), to + j);
    }
  }
  for (; i < count; ++i) {
    to[i] = from[i] * by.at(i);
  }
}

// mul.Tensor(self, other): of floats, by one number where `other` has no dimensions.
IValue mul(const Given& given) {
  const int64_t count = in_order(given[0], c10::kFloat);
  if (count == 0 || !is_dense(given[1])) {
    return {};
  }
  const Tensor &one = given[0].toTensor(), &other = given[1].toTensor();
  if (one.dim() == 0) { // which of two dtypes it has depends on both
    return {};
  }
  const bool by_one = other.dim() == 0;
  float factor = 0;
  if (by_one && other.scalar_type() == c10::kDouble) {
    factor = float(*numbers_of<double>(other));
  } else if (by_one && other.scalar_type() == c10::kFloat) {
    factor = *numbers_of<float>(other);
  } else if (by_one || other.scalar_type() != c10::kFloat || other.sizes() != one.sizes() ||
             in_order(other) != count) {
    return {};
  }
  Tensor result = fresh(one.sizes());
  const float* const from = numbers_of<float>(one);
  float* const to = numbers_of<float>(result);
  by_one ? multiply(from, Factor{factor}, to, count)
         : multiply(from, Factors{numbers_of<float>(other)}, to, count);
  return result;
}

// eq.Scalar(self, other) and the like, of whole numbers. less, same, more: what the result is where
// the number is so, besides `other`.
IValue compare(const Given& given, bool less, bool same, bool more) {
  const int64_t count = in_order(given[0], c10::kLong);
  if (count == 0 || !given[1].isInt()) {
    return {};
  }
  const int64_t* const from = numbers_of<int64_t>(given[0].toTensor());
  const int64_t other = given[1].toInt();
  Tensor result = fresh(given[0].toTensor().sizes(), c10::kBool);
  bool* const to = numbers_of<bool>(result);
  for (int64_t i = 0; i < count; ++i) {
    to[i] = from[i] < other ? less : from[i] == other ? same : more;
  }
  return result;
}

template <bool less, bool same, bool more>
IValue compare(const Given& given) {
  return compare(given, less, same, more);
}

// any(self), all(self), of truths: the result is `stops` where one of them is.
IValue fold(const Given& given, bool stops) {
  const int64_t count = in_order(given[0], c10::kBool);
  if (count == 0) {
    return {};
  }
  const char* const from = numbers_of<char>(given[0].toTensor());
  const bool found =
      std::any_of(from, from + count, [stops](char one) { return (one != 0) == stops; });
  Tensor result = fresh({}, c10::kBool);
  *numbers_of<bool>(result) = found == stops;
  return result;
}

IValue any(const Given& given) { return fold(given, true); }
IValue all(const Given& given) { return fold(given, false); }

const Shortcut some[] = {
    {"aten::zeros", 1, 5, zeros},
    {"aten::embedding", 2, 5, embedding},
    {"aten::mul.Tensor", 2, 2, mul},
    {"aten::eq.Scalar", 2, 2, compare<false, true, false>},
    {"aten::ne.Scalar", 2, 2, compare<true, false, true>},
    {"aten::lt.Scalar", 2, 2, compare<true, false, false>},
    {"aten::le.Scalar", 2, 2, compare<true, true, false>},
    {"aten::gt.Scalar", 2, 2, compare<false, false, true>},
    {"aten::ge.Scalar", 2, 2, compare<false, true, true>},
    {"aten::any", 1, 1, any},
    {"aten::all", 1, 1, all},
};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
