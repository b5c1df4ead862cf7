// Shortcuts: what an operator does to small, plain tensors, without what PyTorch does around it.
//
// Meaning: an operator of a model goes through boxed arguments, the dispatcher, wrappers, iterators
// and intermediate tensors; of a small tensor that takes many times longer than its numbers do. When
// a module is loaded, `shorten_module` (shortcuts.cpp) puts a shortcut before each operator that has
// one. It looks at the arguments as they are in this call: where they are the usual ones (dense, on
// the CPU, in order), it gives the result that the operator would give, by the same kernel where
// there is one, to the last bit; else it gives none, and the operator runs. It keeps nothing from
// one call to the next.
//
// Trap: what an operator refuses, a shortcut leaves to it, so that errors stay as they are.
#pragma once

#include "views.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace lta::shortcuts {

// A tensor with more dimensions than this is left to its operator; a result may have one more.
constexpr int64_t kDims = 7;

// Sizes or strides, on the stack.
class Sizes {
 public:
  Sizes() = default;
  explicit Sizes(size_t count) : count_(count) {}
  explicit Sizes(at::IntArrayRef from) : count_(from.size()) {
    std::copy(from.begin(), from.end(), each_);
  }
  int64_t& operator[](size_t index) { return each_[index]; }
  int64_t* begin() { return each_; }
  int64_t* end() { return each_ + count_; }
  size_t size() const { return count_; }
  operator at::IntArrayRef() const { return {each_, count_}; }
  // False where there is no more room.
  bool add(int64_t value) {
    if (count_ > size_t(kDims)) {
      return false;
    }
    each_[count_++] = value;
    return true;
  }
  void insert(int64_t place, int64_t value) {
    std::copy_backward(each_ + place, each_ + count_, each_ + count_ + 1);
    each_[place] = value;
    ++count_;
  }
  void erase(int64_t place) {
    std::copy(each_ + place + 1, each_ + count_, each_ + place);
    --count_;
  }

 private:
  int64_t each_[kDims + 1];
  size_t count_ = 0;
};

// More numbers than these take longer than all around them, and PyTorch divides them among threads.
constexpr int64_t kMost = 32768;

// The arguments of a call. A model may give fewer than the schema has: the rest have their defaults.
class Given {
 public:
  Given(const c10::IValue* first, size_t count) : first_(first), count_(count) {}
  const c10::IValue& operator[](size_t index) const { return first_[index]; }
  bool has(size_t index) const { return index < count_; }
  // Whether an argument is not given, or None.
  bool lacks(size_t index) const { return index >= count_ || first_[index].isNone(); }
  bool is_false(size_t index) const {
    return index >= count_ || (first_[index].isBool() && !first_[index].toBool());
  }

 private:
  const c10::IValue* first_;
  size_t count_;
};

// The one result; None: the operator is to run.
using Way = c10::IValue(const Given& given);

struct Shortcut {
  const char* name; // with its overload
  size_t least;     // how many arguments a call gives at least
  size_t arguments; // how many there are
  Way* way;
};

// Those of one source.
struct Listed {
  const Shortcut* first;
  size_t count;
  const Listed* next;

  template <size_t size>
  explicit Listed(const Shortcut (&some)[size]);
};

// Of this library.
extern const Listed* listed;

template <size_t size>
Listed::Listed(const Shortcut (&some)[size]) : first(some), count(size), next(listed) {
  listed = this;
}

// Whether a value is a tensor that is dense, on the CPU and nothing besides: not quantised, no lazy
// view, without names; and that it has few dimensions.
inline bool is_dense(const c10::IValue& value) {
  if (!value.isTensor()) {
    return false;
  }
  constexpr c10::DispatchKeySet marks(
      {c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView,
       c10::DispatchKey::AutocastCPU}); // nothing here is differentiated or cast
  const c10::TensorImpl& tensor = *value.toTensor().unsafeGetTensorImpl();
  return (tensor.key_set() | marks) == (c10::DispatchKeySet(c10::DispatchKey::CPU) | marks) &&
      tensor.dim() <= kDims;
}

// How many numbers a tensor has that lie side by side and in order, with strides that say so in every
// dimension; 0 where they do not, where there are none, and where there are more than kMost.
inline int64_t in_order(const at::Tensor& tensor) {
  const auto sizes = tensor.sizes(), strides = tensor.strides();
  int64_t count = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (strides[i] != count || sizes[i] > kMost) {
      return 0;
    }
    count *= sizes[i];
    if (count > kMost) {
      return 0;
    }
  }
  return count;
}

// The same of a value that is a dense tensor of that dtype.
inline int64_t in_order(const c10::IValue& value, c10::ScalarType dtype) {
  return is_dense(value) && value.toTensor().scalar_type() == dtype ? in_order(value.toTensor()) : 0;
}

at::Tensor fresh(at::IntArrayRef sizes, c10::ScalarType dtype = c10::kFloat);

template <class Number>
Number* numbers_of(const at::Tensor& tensor) {
  return static_cast<Number*>(const_cast<void*>(tensor.unsafeGetTensorImpl()->data()));
}

// Puts a dimension in the place that it has from the front: False where there is none.
inline bool wrap(int64_t* dim, int64_t dims) {
  *dim += *dim < 0 ? dims : 0;
  return *dim >= 0 && *dim < dims;
}

// A view (views.h) of a tensor that is not asked for again: where only the stack refers to it, it
// becomes that view.
at::Tensor turn_into(const at::Tensor& of, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset);

// The strides of numbers in order.
Sizes strides_of(at::IntArrayRef sizes);

// A list of whole numbers. False where it is none, or longer than sizes are.
bool read_ints(const c10::IValue& value, Sizes* ints);

} // namespace lta::shortcuts
