/* PyTorch's C++ classes as apps of the pod LibTorch-Lite name them, over the C API: at::Tensor,
 * c10::IValue, torch::jit::mobile::Module. Written from the documented behaviour of PyTorch 2.1.
 *
 * Contract
 *   - C++17, and nothing to link but the app's library. `libtorch_app.h` is read before.
 *   - Names and signatures are PyTorch's; classes are none of its: they have what apps call to load a
 *     model, to run it and to read its results. An operator on a tensor, such as `softmax`, is not
 *     there, since the library has the operators of its models alone: it does not compile.
 *   - A failure is a c10::Error, whose `what()` is lta_last_error().
 *   - Copies share the tensor, module or container, as in PyTorch. One module is for one thread at a
 *     time.
 */
#ifndef LIBTORCH_LITE_CLASSES_H
#define LIBTORCH_LITE_CLASSES_H

#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <initializer_list>
#include <istream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace c10 {

/* ---- Errors ---- */

class Error : public std::exception {
 public:
  explicit Error(std::string text, lta_status status = LTA_INVALID_ARGUMENT)
      : text_(std::move(text)), status_(status) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const char* what_without_backtrace() const noexcept { return what(); }
  const std::string& msg() const { return text_; }
  /* Of the C API's call that failed. */
  lta_status status() const { return status_; }

 private:
  std::string text_;
  lta_status status_;
};

namespace lite {

[[noreturn]] inline void fail() { throw Error(lta_last_error(), lta_last_status()); }

inline void check(lta_status status) {
  if (status != LTA_OK) {
    fail();
  }
}

using Value = std::shared_ptr<lta_value>;

/* A value that a function of the C API handed out; it hands out NULL where it fails. */
inline Value own(lta_value* value) {
  if (value == nullptr) {
    fail();
  }
  return Value(value, lta_value_free);
}

}  // namespace lite

/* ---- Types ---- */

using std::nullopt;
using std::optional;
template <class T>
using intrusive_ptr = std::shared_ptr<T>;

enum class ScalarType : int8_t {
  Byte = LTA_UINT8,
  Char = LTA_INT8,
  Short = LTA_INT16,
  Int = LTA_INT32,
  Long = LTA_INT64,
  Half = LTA_FLOAT16,
  Float = LTA_FLOAT32,
  Double = LTA_FLOAT64,
  ComplexHalf = LTA_COMPLEX32,
  ComplexFloat = LTA_COMPLEX64,
  ComplexDouble = LTA_COMPLEX128,
  Bool = LTA_BOOL,
  QInt8 = LTA_QINT8,
  QUInt8 = LTA_QUINT8,
  QInt32 = LTA_QINT32,
  BFloat16 = LTA_BFLOAT16,
  QUInt4x2 = LTA_QUINT4X2,
  QUInt2x4 = LTA_QUINT2X4,
};

constexpr ScalarType kByte = ScalarType::Byte, kChar = ScalarType::Char, kShort = ScalarType::Short,
                     kInt = ScalarType::Int, kLong = ScalarType::Long, kHalf = ScalarType::Half,
                     kFloat = ScalarType::Float, kDouble = ScalarType::Double,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16;
constexpr ScalarType kUInt8 = kByte, kInt8 = kChar, kInt16 = kShort, kInt32 = kInt, kInt64 = kLong,
                     kFloat16 = kHalf, kFloat32 = kFloat, kFloat64 = kDouble;

inline const char* toString(ScalarType type) {
  const char* name = lta_dtype_name(static_cast<lta_dtype>(type));
  return name == nullptr ? "undefined" : name;
}

namespace lite {

template <class T>
struct dtype_of;
#define LTA_LITE_DTYPE(T, name) \
  template <>                   \
  struct dtype_of<T> {          \
    static constexpr ScalarType value = ScalarType::name; \
  };
LTA_LITE_DTYPE(uint8_t, Byte)
LTA_LITE_DTYPE(int8_t, Char)
LTA_LITE_DTYPE(int16_t, Short)
LTA_LITE_DTYPE(int32_t, Int)
LTA_LITE_DTYPE(int64_t, Long)
LTA_LITE_DTYPE(float, Float)
LTA_LITE_DTYPE(double, Double)
LTA_LITE_DTYPE(bool, Bool)
#undef LTA_LITE_DTYPE
/* Where int64_t is `long`, `long long` is another type of the same width, and the other way round. */
template <>
struct dtype_of<std::conditional_t<std::is_same_v<int64_t, long long>, long, long long>> {
  static constexpr ScalarType value = ScalarType::Long;
};

}  // namespace lite

enum class DeviceType : int8_t { CPU = 0 };
constexpr DeviceType kCPU = DeviceType::CPU;

struct Device {
  Device(DeviceType = kCPU) {}
  bool is_cpu() const { return true; }
  bool operator==(const Device&) const { return true; }
};

/* What of TensorOptions says something here: all tensors are strided, on the CPU and without
 * gradients. */
class TensorOptions {
 public:
  TensorOptions(ScalarType type = kFloat) : type_(type) {}
  TensorOptions dtype(ScalarType type) const { return type; }
  TensorOptions device(Device) const { return *this; }
  ScalarType scalar_type() const { return type_; }

 private:
  ScalarType type_;
};

template <class T>
class ArrayRef {
 public:
  using value_type = T;
  ArrayRef() = default;
  ArrayRef(const T* data, size_t size) : data_(data), size_(size) {}
  ArrayRef(const T& one) : ArrayRef(&one, 1) {}
  ArrayRef(const std::vector<T>& all) : ArrayRef(all.data(), all.size()) {}
  template <size_t N>
  ArrayRef(const std::array<T, N>& all) : ArrayRef(all.data(), N) {}
  template <size_t N>
  ArrayRef(const T (&all)[N]) : ArrayRef(all, N) {}
  /* As PyTorch's: for an argument. The list ends with the expression that it is in. */
  ArrayRef(const std::initializer_list<T>& all)
      : ArrayRef(std::begin(all) == std::end(all) ? nullptr : std::begin(all), all.size()) {}

  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  const T& operator[](size_t index) const { return data_[index]; }
  const T& front() const { return at(0); }
  const T& back() const { return at(size_ - 1); }
  const T& at(size_t index) const {
    if (index >= size_) {
      throw Error("ArrayRef: invalid index " + std::to_string(index) + " of " + std::to_string(size_));
    }
    return data_[index];
  }
  std::vector<T> vec() const { return std::vector<T>(begin(), end()); }
  bool equals(ArrayRef other) const { return vec() == other.vec(); }
  friend bool operator==(ArrayRef a, ArrayRef b) { return a.equals(b); }
  friend bool operator!=(ArrayRef a, ArrayRef b) { return !a.equals(b); }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};
using IntArrayRef = ArrayRef<int64_t>;

/* Models run without autograd, whoever asks. */
class InferenceMode {
 public:
  explicit InferenceMode(bool = true) {}
  ~InferenceMode() {}
};

}  // namespace c10

namespace at {

using c10::ArrayRef;
using c10::Device;
using c10::IntArrayRef;
using c10::ScalarType;
using c10::TensorOptions;
using c10::kBFloat16, c10::kBool, c10::kByte, c10::kChar, c10::kCPU, c10::kDouble, c10::kFloat,
    c10::kFloat16, c10::kFloat32, c10::kFloat64, c10::kHalf, c10::kInt, c10::kInt16, c10::kInt32,
    c10::kInt64, c10::kInt8, c10::kLong, c10::kShort, c10::kUInt8;

/* Elements by indices: `accessor<float, 2>()[1][2]`. Lives as long as its tensor. */
template <class T, size_t N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  decltype(auto) operator[](int64_t index) const {
    T* const at = data_ + index * strides_[0];
    if constexpr (N == 1) {
      return *at;
    } else {
      return TensorAccessor<T, N - 1>(at, sizes_ + 1, strides_ + 1);
    }
  }
  int64_t size(size_t dimension) const { return sizes_[dimension]; }
  int64_t stride(size_t dimension) const { return strides_[dimension]; }
  IntArrayRef sizes() const { return {sizes_, N}; }
  T* data() const { return data_; }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(c10::lite::Value value) : value_(std::move(value)) {}
  const c10::lite::Value& value() const { return value_; }

  bool defined() const { return value_ != nullptr; }
  int64_t dim() const { return static_cast<int64_t>(info().ndim); }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return {info().shape, info().ndim}; }
  IntArrayRef strides() const { return {info().strides, info().ndim}; }
  int64_t size(int64_t dimension) const { return info().shape[wrapped(dimension)]; }
  int64_t stride(int64_t dimension) const { return info().strides[wrapped(dimension)]; }
  int64_t numel() const { return static_cast<int64_t>(info().numel); }
  size_t nbytes() const { return info().nbytes; }
  size_t element_size() const { return lta_dtype_size(info().dtype); }
  size_t itemsize() const { return element_size(); }
  ScalarType scalar_type() const { return static_cast<ScalarType>(info().dtype); }
  ScalarType dtype() const { return scalar_type(); }
  Device device() const { return {}; }
  bool is_contiguous() const { return info().is_contiguous != 0; }
  bool is_quantized() const { return info().is_quantized != 0; }
  bool is_cpu() const { return true; }
  bool is_floating_point() const {
    const ScalarType type = scalar_type();
    return type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16;
  }

  /* The first element. Elements lie one behind the other where is_contiguous(). */
  void* data_ptr() const {
    const lta_tensor_info seen = info();
    if (seen.data == nullptr && seen.numel != 0) {
      throw c10::Error("data_ptr of a tensor that is not dense in memory: use contiguous()");
    }
    return seen.data;
  }
  template <class T>
  T* data_ptr() const {
    require<T>();
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    if (info().ndim != N) {
      throw c10::Error("TensorAccessor expected " + std::to_string(N) + " dims but tensor has " +
                       std::to_string(info().ndim));
    }
    return {data_ptr<T>(), info().shape, info().strides};
  }
  /* The only element, as a number of T. */
  template <class T>
  T item() const;

  Tensor contiguous() const { return is_contiguous() ? *this : clone(); }
  /* A contiguous copy. */
  Tensor clone() const {
    const lta_tensor_info seen = info();
    std::vector<char> bytes(seen.nbytes);
    c10::lite::check(lta_tensor_read(value_.get(), bytes.data(), bytes.size()));
    return Tensor(c10::lite::own(
        lta_tensor_copy(seen.dtype, seen.ndim, seen.shape, nullptr, bytes.data(), bytes.size())));
  }
  Tensor cpu() const { return *this; }
  Tensor detach() const { return *this; }
  /* One slice, over the same memory. */
  Tensor select(int64_t dimension, int64_t index) const;
  Tensor operator[](int64_t index) const { return select(0, index); }
  /* Without a dimension of size 1, and with one more, over the same memory. */
  Tensor squeeze(int64_t dimension) const {
    return size(dimension) == 1 ? select(dimension, 0) : *this;
  }
  Tensor unsqueeze(int64_t dimension) const;
  /* The same elements in another shape; one size may be -1. The tensor must be contiguous. */
  Tensor view(IntArrayRef sizes) const;
  Tensor reshape(IntArrayRef sizes) const { return contiguous().view(sizes); }

 private:
  lta_tensor_info info() const {
    if (value_ == nullptr) {
      throw c10::Error("the tensor is undefined");
    }
    lta_tensor_info found;
    c10::lite::check(lta_tensor_describe(value_.get(), &found));
    return found;
  }
  template <class T>
  void require() const {
    const ScalarType wanted = c10::lite::dtype_of<std::remove_const_t<T>>::value;
    if (scalar_type() != wanted) {
      throw c10::Error(std::string("expected scalar type ") + c10::toString(wanted) + " but found " +
                           c10::toString(scalar_type()),
                       LTA_WRONG_KIND);
    }
  }
  size_t wrapped(int64_t dimension) const {
    const int64_t count = dim();
    const int64_t found = dimension < 0 ? dimension + count : dimension;
    if (found < 0 || found >= count) {
      throw c10::Error("Dimension out of range: " + std::to_string(dimension) + " of a tensor with " +
                       std::to_string(count));
    }
    return static_cast<size_t>(found);
  }
  Tensor over(void* data, const std::vector<int64_t>& sizes,
              const std::vector<int64_t>& strides) const;

  c10::lite::Value value_;
};
using TensorList = ArrayRef<Tensor>;

}  // namespace at

namespace c10 {
namespace lite {

/* A tensor over memory that `deleter` gives back; `strides` is NULL for a contiguous one. */
inline at::Tensor borrowed(void* data, IntArrayRef sizes, const int64_t* strides,
                           std::function<void(void*)> deleter, ScalarType type) {
  size_t bytes = lta_dtype_size(static_cast<lta_dtype>(type));
  if (strides == nullptr) {
    for (const int64_t size : sizes) {
      bytes *= static_cast<size_t>(size);
    }
  } else {
    size_t span = 1;
    for (size_t i = 0; i < sizes.size(); ++i) {
      span = sizes[i] == 0 || span == 0
          ? 0
          : span + static_cast<size_t>(sizes[i] - 1) * static_cast<size_t>(strides[i]);
    }
    bytes *= span;
  }
  struct Memory {
    void* data;
    std::function<void(void*)> deleter;
  };
  /* the C API calls the deleter once, whether it succeeds or fails */
  Memory* const memory = new Memory{data, std::move(deleter)};
  const auto release = [](void* context) {
    const std::unique_ptr<Memory> held(static_cast<Memory*>(context));
    if (held->deleter) {
      held->deleter(held->data);
    }
  };
  return at::Tensor(own(lta_tensor_borrow(static_cast<lta_dtype>(type), sizes.size(), sizes.data(),
                                          strides, data, bytes, release, memory)));
}

/* A 16-bit float as a float: 5 bits of exponent in IEEE's, 8 in bfloat16. */
inline float widened(uint16_t bits, bool brain) {
  uint32_t whole = static_cast<uint32_t>(bits) << 16;
  if (!brain) {
    const uint32_t sign = whole & 0x80000000u, exponent = (bits >> 10) & 31u;
    const float fraction = static_cast<float>(bits & 1023u);
    if (exponent == 31u) {
      whole = sign | 0x7f800000u | (static_cast<uint32_t>(bits & 1023u) << 13);
    } else {
      float value = exponent == 0 ? fraction / 16777216.0f : 1.0f + fraction / 1024.0f;
      for (uint32_t i = exponent; i > 15u; --i) {
        value *= 2.0f;
      }
      for (uint32_t i = exponent; i != 0 && i < 15u; ++i) {
        value /= 2.0f;
      }
      return sign != 0 ? -value : value;
    }
  }
  float value;
  std::memcpy(&value, &whole, sizeof value);
  return value;
}

}  // namespace lite
}  // namespace c10

namespace at {

template <class T>
T Tensor::item() const {
  if (numel() != 1) {
    throw c10::Error("a Tensor with " + std::to_string(numel()) +
                     " elements cannot be converted to Scalar");
  }
  unsigned char bytes[16];
  c10::lite::check(lta_tensor_read(value_.get(), bytes, nbytes()));
  const auto as = [&](auto sample) {
    std::memcpy(&sample, bytes, sizeof sample);
    return sample;
  };
  switch (scalar_type()) {
    case ScalarType::Byte: return static_cast<T>(as(uint8_t()));
    case ScalarType::Char: return static_cast<T>(as(int8_t()));
    case ScalarType::Short: return static_cast<T>(as(int16_t()));
    case ScalarType::Int: return static_cast<T>(as(int32_t()));
    case ScalarType::Long: return static_cast<T>(as(int64_t()));
    case ScalarType::Float: return static_cast<T>(as(float()));
    case ScalarType::Double: return static_cast<T>(as(double()));
    case ScalarType::Bool: return static_cast<T>(bytes[0] != 0);
    case ScalarType::Half: return static_cast<T>(c10::lite::widened(as(uint16_t()), false));
    case ScalarType::BFloat16: return static_cast<T>(c10::lite::widened(as(uint16_t()), true));
    default:
      throw c10::Error(std::string("item of a tensor of ") + c10::toString(scalar_type()));
  }
}

inline Tensor Tensor::over(void* data, const std::vector<int64_t>& sizes,
                           const std::vector<int64_t>& strides) const {
  /* what it is over lives as long as the slice */
  const auto keep = [whole = value_](void*) {};
  return c10::lite::borrowed(data, sizes, strides.data(), keep, scalar_type());
}

inline Tensor Tensor::select(int64_t dimension, int64_t index) const {
  const size_t at = wrapped(dimension);
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const int64_t found = index < 0 ? index + shape[at] : index;
  if (found < 0 || found >= shape[at]) {
    throw c10::Error("index " + std::to_string(index) + " is out of bounds for dimension " +
                     std::to_string(at) + " with size " + std::to_string(shape[at]));
  }
  char* const first = static_cast<char*>(data_ptr());
  const int64_t offset = found * steps[at] * static_cast<int64_t>(element_size());
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(at));
  return over(first == nullptr ? nullptr : first + offset, shape, steps);
}

inline Tensor Tensor::unsqueeze(int64_t dimension) const {
  std::vector<int64_t> shape = sizes().vec(), steps = strides().vec();
  const int64_t at = dimension < 0 ? dimension + dim() + 1 : dimension;
  if (at < 0 || at > dim()) {
    throw c10::Error("Dimension out of range: " + std::to_string(dimension));
  }
  const int64_t step = at < dim() ? shape[static_cast<size_t>(at)] * steps[static_cast<size_t>(at)] : 1;
  shape.insert(shape.begin() + at, 1);
  steps.insert(steps.begin() + at, step);
  return over(data_ptr(), shape, steps);
}

inline Tensor Tensor::view(IntArrayRef sizes) const {
  if (!is_contiguous()) {
    throw c10::Error("view of a tensor that is not contiguous: use reshape");
  }
  std::vector<int64_t> shape = sizes.vec();
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : shape) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else {
      known *= size;
    }
  }
  if (open != nullptr && known > 0 && numel() % known == 0) {
    *open = numel() / known;
    known *= *open;
  }
  if (known != numel()) {
    throw c10::Error("shape is invalid for input of size " + std::to_string(numel()));
  }
  std::vector<int64_t> steps(shape.size(), 1);
  for (size_t i = shape.size(); i > 1; --i) {
    steps[i - 2] = steps[i - 1] * (shape[i - 1] == 0 ? 1 : shape[i - 1]);
  }
  return over(data_ptr(), shape, steps);
}

/* The guards of older apps; see c10::InferenceMode. */
struct AutoNonVariableTypeMode {
  explicit AutoNonVariableTypeMode(bool = true) {}
  ~AutoNonVariableTypeMode() {}
};
using AutoDispatchBelowADInplaceOrView = AutoNonVariableTypeMode;
using AutoDispatchBelowAutograd = AutoNonVariableTypeMode;

/* An app's engine for quantised layers is chosen where its library is built. */
enum class QEngine : uint8_t { NoQEngine = 0, FBGEMM = 1, QNNPACK = 2 };
struct Context {
  void setQEngine(QEngine) {}
};
inline Context& globalContext() {
  static Context context;
  return context;
}
inline int get_num_threads() { return lta_threads(); }
/* Up to `threads` of the app.yaml that the library was made for. */
inline void set_num_threads(int count) { c10::lite::check(lta_set_threads(count)); }

}  // namespace at

/* ---- Values ---- */

namespace c10 {

class IValue;
template <class K, class V>
class Dict;
template <class T>
class List;

namespace ivalue {

class Tuple {
 public:
  explicit Tuple(std::vector<IValue> elements) : elements_(std::move(elements)) {}
  const std::vector<IValue>& elements() const { return elements_; }
  size_t size() const { return elements_.size(); }

 private:
  std::vector<IValue> elements_;
};

class ConstantString {
 public:
  explicit ConstantString(std::string text) : text_(std::move(text)) {}
  const std::string& string() const { return text_; }

 private:
  std::string text_;
};

}  // namespace ivalue

class IValue {
 public:
  IValue() : value_(lite::own(lta_none())) {}
  IValue(std::nullopt_t) : IValue() {}
  IValue(at::Tensor tensor) : value_(tensor.defined() ? tensor.value() : lite::own(lta_none())) {}
  IValue(double number) : value_(lite::own(lta_double(number))) {}
  IValue(float number) : IValue(static_cast<double>(number)) {}
  IValue(int32_t number) : value_(lite::own(lta_int(number))) {}
  IValue(int64_t number) : value_(lite::own(lta_int(number))) {}
  IValue(bool truth) : value_(lite::own(lta_bool(truth))) {}
  IValue(const std::string& text) : value_(lite::own(lta_string(text.data(), text.size()))) {}
  IValue(const char* text) : IValue(std::string(text)) {}
  template <class T>
  IValue(std::optional<T> value) : IValue(value ? IValue(*std::move(value)) : IValue()) {}
  template <class T>
  IValue(const std::vector<T>& items) : value_(list_of(items)) {}
  template <class T>
  IValue(ArrayRef<T> items) : value_(list_of(items.vec())) {}
  template <class T>
  IValue(const List<T>& items);
  template <class... T>
  IValue(const std::tuple<T...>& items)
      : value_(std::apply(
            [](const T&... each) { return tuple_of({IValue(each)...}); }, items)) {}
  template <class K, class V>
  IValue(const Dict<K, V>& entries);
  template <class K, class V>
  IValue(const std::unordered_map<K, V>& entries) : value_(dict_of<K, V>(entries)) {}
  template <class K, class V>
  IValue(const std::map<K, V>& entries) : value_(dict_of<K, V>(entries)) {}
  explicit IValue(lite::Value value) : value_(std::move(value)) {}
  /* any pointer would be a bool */
  IValue(void*) = delete;

  const lite::Value& value() const { return value_; }

  bool isNone() const { return kind() == LTA_KIND_NONE; }
  bool isTensor() const { return kind() == LTA_KIND_TENSOR; }
  bool isBool() const { return kind() == LTA_KIND_BOOL; }
  bool isInt() const { return kind() == LTA_KIND_INT; }
  bool isDouble() const { return kind() == LTA_KIND_DOUBLE; }
  bool isScalar() const { return isBool() || isInt() || isDouble(); }
  bool isString() const { return kind() == LTA_KIND_STRING; }
  bool isTuple() const { return kind() == LTA_KIND_TUPLE; }
  bool isList() const { return kind() == LTA_KIND_LIST; }
  bool isGenericDict() const { return kind() == LTA_KIND_DICT; }
  /* Of a list, by its items: PyTorch asks its type. An empty list is a list of everything. */
  bool isTensorList() const { return is_list_of(LTA_KIND_TENSOR); }
  bool isIntList() const { return is_list_of(LTA_KIND_INT); }
  bool isDoubleList() const { return is_list_of(LTA_KIND_DOUBLE); }
  bool isBoolList() const { return is_list_of(LTA_KIND_BOOL); }
  std::string tagKind() const {
    static const char* const names[] = {"None",   "Bool",        "Int",   "Double",      "String",
                                        "Tensor", "GenericList", "Tuple", "GenericDict", "Object"};
    return names[kind()];
  }

  at::Tensor toTensor() const {
    expect(LTA_KIND_TENSOR);
    return at::Tensor(value_);
  }
  bool toBool() const {
    int found = 0;
    lite::check(lta_value_bool(value_.get(), &found));
    return found != 0;
  }
  int64_t toInt() const {
    int64_t found = 0;
    lite::check(lta_value_int(value_.get(), &found));
    return found;
  }
  double toDouble() const {
    double found = 0;
    lite::check(lta_value_double(value_.get(), &found));
    return found;
  }
  std::string toStringRef() const {
    const char* data = nullptr;
    size_t size = 0;
    lite::check(lta_value_string(value_.get(), &data, &size));
    return std::string(data, size);
  }
  intrusive_ptr<ivalue::ConstantString> toString() const {
    return std::make_shared<ivalue::ConstantString>(toStringRef());
  }
  intrusive_ptr<ivalue::Tuple> toTuple() const {
    expect(LTA_KIND_TUPLE);
    return std::make_shared<ivalue::Tuple>(items());
  }
  ivalue::Tuple toTupleRef() const { return *toTuple(); }
  List<IValue> toList() const;
  std::vector<IValue> toListRef() const {
    expect(LTA_KIND_LIST);
    return items();
  }
  List<at::Tensor> toTensorList() const;
  List<int64_t> toIntList() const;
  List<double> toDoubleList() const;
  List<bool> toBoolList() const;
  std::vector<at::Tensor> toTensorVector() const { return all<at::Tensor>(); }
  std::vector<int64_t> toIntVector() const { return all<int64_t>(); }
  std::vector<double> toDoubleVector() const { return all<double>(); }
  Dict<IValue, IValue> toGenericDict() const;
  template <class T>
  T to() const {
    if constexpr (std::is_same_v<T, IValue>) {
      return *this;
    } else if constexpr (std::is_same_v<T, at::Tensor>) {
      return toTensor();
    } else if constexpr (std::is_same_v<T, bool>) {
      return toBool();
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(toInt());
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(toDouble());
    } else {
      static_assert(std::is_same_v<T, std::string>, "a type that no IValue is converted to");
      return toStringRef();
    }
  }
  /* The same text, number, or tensor: as keys of dictionaries are compared. */
  friend bool operator==(const IValue& a, const IValue& b) {
    if (a.kind() != b.kind()) {
      return false;
    }
    switch (a.kind()) {
      case LTA_KIND_NONE: return true;
      case LTA_KIND_BOOL: return a.toBool() == b.toBool();
      case LTA_KIND_INT: return a.toInt() == b.toInt();
      case LTA_KIND_DOUBLE: return a.toDouble() == b.toDouble();
      case LTA_KIND_STRING: return a.toStringRef() == b.toStringRef();
      default: return a.value_ == b.value_;
    }
  }
  friend bool operator!=(const IValue& a, const IValue& b) { return !(a == b); }

 private:
  lta_kind kind() const { return lta_value_kind(value_.get()); }
  void expect(lta_kind wanted) const {
    if (kind() != wanted) {
      throw Error("Expected " + IValue::named(wanted) + " but got " + tagKind(), LTA_WRONG_KIND);
    }
  }
  static std::string named(lta_kind kind) {
    switch (kind) {
      case LTA_KIND_TENSOR: return "Tensor";
      case LTA_KIND_TUPLE: return "Tuple";
      case LTA_KIND_LIST: return "GenericList";
      default: return "GenericDict";
    }
  }
  /* The items of a list or a tuple. */
  std::vector<IValue> items() const {
    size_t size = 0;
    lite::check(lta_value_size(value_.get(), &size));
    std::vector<IValue> found;
    found.reserve(size);
    for (size_t i = 0; i < size; ++i) {
      lta_value* item = nullptr;
      lite::check(lta_value_item(value_.get(), i, &item));
      found.emplace_back(lite::own(item));
    }
    return found;
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const IValue& one : toListRef()) {
      found.push_back(one.to<T>());
    }
    return found;
  }
  bool is_list_of(lta_kind wanted) const {
    if (!isList()) {
      return false;
    }
    for (const IValue& one : items()) {
      if (one.kind() != wanted) {
        return false;
      }
    }
    return true;
  }
  static std::vector<const lta_value*> pointers(const std::vector<IValue>& values) {
    std::vector<const lta_value*> found;
    for (const IValue& one : values) {
      found.push_back(one.value_.get());
    }
    return found;
  }
  static lite::Value tuple_of(const std::vector<IValue>& values) {
    return lite::own(lta_tuple(pointers(values).data(), values.size()));
  }
  /* The kind of a T, for a container that has none. */
  template <class T>
  static lta_kind kind_of() {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      return LTA_KIND_TENSOR;
    } else if constexpr (std::is_same_v<T, bool>) {
      return LTA_KIND_BOOL;
    } else if constexpr (std::is_integral_v<T>) {
      return LTA_KIND_INT;
    } else if constexpr (std::is_floating_point_v<T>) {
      return LTA_KIND_DOUBLE;
    } else if constexpr (std::is_same_v<T, std::string>) {
      return LTA_KIND_STRING;
    } else {
      return LTA_KIND_OTHER;
    }
  }
  template <class T>
  static lite::Value list_of(const std::vector<T>& items) {
    std::vector<IValue> values;
    for (const auto& one : items) {
      values.push_back(IValue(static_cast<T>(one)));
    }
    return lite::own(lta_list(kind_of<T>(), pointers(values).data(), values.size()));
  }
  template <class K, class V, class Entries>
  static lite::Value dict_of(const Entries& entries) {
    std::vector<IValue> keys, values;
    for (const auto& [key, value] : entries) {
      keys.push_back(IValue(key));
      values.push_back(IValue(value));
    }
    return lite::own(lta_dict(kind_of<K>(), kind_of<V>(), pointers(keys).data(),
                              pointers(values).data(), keys.size()));
  }

  template <class K, class V>
  friend class Dict;
  lite::Value value_;
};

template <class T>
class List {
 public:
  List() = default;
  List(std::initializer_list<T> items) : items_(items) {}
  explicit List(std::vector<T> items) : items_(std::move(items)) {}
  size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  T get(size_t index) const { return items_.at(index); }
  T operator[](size_t index) const { return items_.at(index); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  template <class... Arguments>
  void emplace_back(Arguments&&... arguments) {
    items_.emplace_back(std::forward<Arguments>(arguments)...);
  }
  void reserve(size_t count) { items_.reserve(count); }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  const std::vector<T>& vec() const { return items_; }

 private:
  std::vector<T> items_;
};

template <class K, class V>
class Dict {
 public:
  class Entry {
   public:
    Entry(K key, V value) : key_(std::move(key)), value_(std::move(value)) {}
    const K& key() const { return key_; }
    const V& value() const { return value_; }

   private:
    friend class Dict;
    K key_;
    V value_;
  };

  Dict() = default;
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  bool contains(const K& key) const { return find(key) != end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  auto find(const K& key) const {
    auto found = begin();
    while (found != end() && !(found->key() == key)) {
      ++found;
    }
    return found;
  }
  const V& at(const K& key) const {
    const auto found = find(key);
    if (found == end()) {
      throw Error("Argument passed to at() was not in the map.");
    }
    return found->value();
  }
  /* Adds an entry where the key has none. */
  void insert(K key, V value) {
    if (!contains(key)) {
      entries_.emplace_back(std::move(key), std::move(value));
    }
  }
  void insert_or_assign(K key, V value) {
    for (Entry& one : entries_) {
      if (one.key_ == key) {
        one.value_ = std::move(value);
        return;
      }
    }
    entries_.emplace_back(std::move(key), std::move(value));
  }

 private:
  friend class IValue;
  std::vector<Entry> entries_;
};

template <class T>
IValue::IValue(const List<T>& items) : value_(list_of(items.vec())) {}

template <class K, class V>
IValue::IValue(const Dict<K, V>& entries) {
  std::vector<std::pair<K, V>> pairs;
  for (const auto& one : entries) {
    pairs.emplace_back(one.key(), one.value());
  }
  value_ = dict_of<K, V>(pairs);
}

inline List<IValue> IValue::toList() const { return List<IValue>(toListRef()); }
inline List<at::Tensor> IValue::toTensorList() const { return List<at::Tensor>(all<at::Tensor>()); }
inline List<int64_t> IValue::toIntList() const { return List<int64_t>(all<int64_t>()); }
inline List<double> IValue::toDoubleList() const { return List<double>(all<double>()); }
inline List<bool> IValue::toBoolList() const { return List<bool>(all<bool>()); }

inline Dict<IValue, IValue> IValue::toGenericDict() const {
  expect(LTA_KIND_DICT);
  size_t size = 0;
  lite::check(lta_value_size(value_.get(), &size));
  Dict<IValue, IValue> found;
  for (size_t i = 0; i < size; ++i) {
    lta_value *key = nullptr, *item = nullptr;
    lite::check(lta_value_entry(value_.get(), i, &key, &item));
    found.entries_.emplace_back(IValue(lite::own(key)), IValue(lite::own(item)));
  }
  return found;
}

namespace impl {
using GenericDict = Dict<IValue, IValue>;
using GenericList = List<IValue>;
}  // namespace impl

}  // namespace c10

namespace at {
using c10::IValue;
}

/* ---- Models ---- */

namespace torch {

using namespace at;
using c10::InferenceMode;
using Dtype = ScalarType;

inline TensorOptions dtype(ScalarType type) { return type; }

/* Tensors over the caller's memory, which must live as long as they do. */
inline Tensor from_blob(void* data, IntArrayRef sizes, TensorOptions options = {}) {
  return c10::lite::borrowed(data, sizes, nullptr, {}, options.scalar_type());
}
inline Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                        TensorOptions options = {}) {
  if (strides.size() != sizes.size()) {
    throw c10::Error("from_blob: " + std::to_string(strides.size()) + " strides for " +
                     std::to_string(sizes.size()) + " dimensions");
  }
  return c10::lite::borrowed(data, sizes, strides.data(), {}, options.scalar_type());
}
/* `deleter(data)` is called once, when nothing needs the memory any more, on any thread. */
inline Tensor from_blob(void* data, IntArrayRef sizes, std::function<void(void*)> deleter,
                        TensorOptions options = {}) {
  return c10::lite::borrowed(data, sizes, nullptr, std::move(deleter), options.scalar_type());
}

inline Tensor zeros(IntArrayRef sizes, TensorOptions options = {}) {
  size_t bytes = lta_dtype_size(static_cast<lta_dtype>(options.scalar_type()));
  for (const int64_t size : sizes) {
    bytes *= static_cast<size_t>(size);
  }
  return Tensor(c10::lite::own(lta_tensor_copy(static_cast<lta_dtype>(options.scalar_type()),
                                               sizes.size(), sizes.data(), nullptr, nullptr, bytes)));
}
/* Zeros here. */
inline Tensor empty(IntArrayRef sizes, TensorOptions options = {}) { return zeros(sizes, options); }
/* A tensor of one dimension with a copy of the numbers. */
template <class T>
Tensor tensor(const std::vector<T>& numbers) {
  const Tensor made = zeros({static_cast<int64_t>(numbers.size())}, c10::lite::dtype_of<T>::value);
  for (size_t i = 0; i < numbers.size(); ++i) {
    made.data_ptr<T>()[i] = numbers[i];
  }
  return made;
}
template <class T>
Tensor tensor(std::initializer_list<T> numbers) {
  return tensor(std::vector<T>(numbers));
}

namespace autograd {
struct AutoGradMode {
  explicit AutoGradMode(bool) {}
  ~AutoGradMode() {}
};
}  // namespace autograd
struct NoGradGuard {
  NoGradGuard() {}
  ~NoGradGuard() {}
};

namespace jit {

using c10::IValue;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;

struct GraphOptimizerEnabledGuard {
  explicit GraphOptimizerEnabledGuard(bool) {}
  ~GraphOptimizerEnabledGuard() {}
};

namespace mobile {

class Module;

class Method {
 public:
  const std::string& name() const { return name_; }
  IValue operator()(const std::vector<IValue>& arguments) const {
    std::vector<const lta_value*> given;
    for (const IValue& one : arguments) {
      given.push_back(one.value().get());
    }
    lta_value* result = nullptr;
    c10::lite::check(
        lta_module_run(module_.get(), name_.c_str(), given.data(), given.size(), &result));
    return IValue(c10::lite::own(result));
  }

 private:
  friend class Module;
  Method(std::shared_ptr<lta_module> module, std::string name)
      : module_(std::move(module)), name_(std::move(name)) {}
  std::shared_ptr<lta_module> module_;
  std::string name_;
};

class Module {
 public:
  Module() = default;
  explicit Module(lta_module* module) : module_(module, lta_module_free) {}

  IValue forward(const std::vector<IValue>& inputs) { return get_method("forward")(inputs); }
  template <class... Arguments>
  IValue run_method(const std::string& name, Arguments&&... arguments) {
    return get_method(name)({IValue(std::forward<Arguments>(arguments))...});
  }
  Method get_method(const std::string& name) const {
    const std::optional<Method> found = find_method(name);
    if (!found) {
      throw c10::Error("Method '" + name + "' is not defined.", LTA_NO_SUCH_METHOD);
    }
    return *found;
  }
  std::optional<Method> find_method(const std::string& name) const {
    for (const Method& one : get_methods()) {
      if (one.name() == name) {
        return one;
      }
    }
    return std::nullopt;
  }
  std::vector<Method> get_methods() const {
    if (module_ == nullptr) {
      throw c10::Error("the module was not loaded");
    }
    std::vector<Method> found;
    for (size_t i = 0; i < lta_module_method_count(module_.get()); ++i) {
      found.push_back(Method(module_, lta_module_method_name(module_.get(), i)));
    }
    return found;
  }
  int64_t bytecode_version() const { return lta_module_bytecode_version(module_.get()); }
  /* Models are as they were when they were exported. */
  void eval() {}
  bool is_training() const { return false; }

 private:
  std::shared_ptr<lta_module> module_;
};

}  // namespace mobile

inline mobile::Module _load_for_mobile(const std::string& file,
                                       std::optional<Device> = std::nullopt) {
  lta_module* module = nullptr;
  c10::lite::check(lta_module_load(file.c_str(), &module));
  return mobile::Module(module);
}
inline mobile::Module _load_for_mobile(std::istream& stream,
                                       std::optional<Device> = std::nullopt) {
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  lta_module* module = nullptr;
  c10::lite::check(lta_module_load_memory(bytes.data(), bytes.size(), &module));
  return mobile::Module(module);
}
/* Extra files are not read here: they lie in `extra/` of the .ptl, which is a zip. */
mobile::Module _load_for_mobile(const std::string&, std::optional<Device>, ExtraFilesMap&) = delete;

}  // namespace jit
}  // namespace torch

#endif /* LIBTORCH_LITE_CLASSES_H */
