// The C API over PyTorch's lite interpreter.
//
// Contract: libtorch_app.h. One file, longer than others on purpose: it is compiled once a target,
// and most of what that costs is PyTorch's headers.
//
// Size is a feature: no stream, no regular expression, no operator called through the dispatcher
// (but for quantised inputs, by name, where the library has the operator), so that the API asks
// for no operator and no kernel of its own.
#include "libtorch_app.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/InferenceMode.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <caffe2/serialize/versions.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>

#include "extension.h"
#include "fitted.h"
#include "fork_gate.h"
#include "handles.h"
#include "model_memory.h"
#include "prepare_module.h"
#include "signature.h"
#include "../threads/pool.h"

// What the build says of the runtime: LTA_PYTORCH, LTA_BYTECODE_LEAST, LTA_BYTECODE_MOST
// (plan/graph.py). "4 to 9":
#define LTA_TEXT_OF(value) #value
#define LTA_TEXT(value) LTA_TEXT_OF(value)
#define LTA_BYTECODE LTA_TEXT(LTA_BYTECODE_LEAST) " to " LTA_TEXT(LTA_BYTECODE_MOST)

// In import.cpp, and in no header: what all public loaders end in. The public one for a reader of
// our own copies the whole model first, and reads the copy without checking bounds.
namespace torch {
namespace jit {
mobile::Module _load_for_mobile_impl(
    std::unique_ptr<caffe2::serialize::ReadAdapterInterface> reader,
    c10::optional<c10::Device> device,
    ExtraFilesMap& extra_files,
    uint64_t module_load_options);
} // namespace jit
} // namespace torch

namespace {

using c10::IValue;
namespace mobile = torch::jit::mobile;

static_assert(LTA_UINT8 == int(c10::ScalarType::Byte) && LTA_BOOL == int(c10::ScalarType::Bool) &&
                  LTA_QUINT2X4 == int(c10::ScalarType::QUInt2x4),
              "lta_dtype is numbered as ScalarType");

// ---- Errors ----

struct LastError {
  lta_status status = LTA_OK;
  std::string text;
  std::string names;
};

LastError& last_error() {
  static thread_local LastError error;
  return error;
}

lta_status fail(lta_status status, std::string text, std::string names = std::string()) {
  LastError& error = last_error();
  error.status = status;
  error.text = std::move(text);
  error.names = std::move(names);
  return status;
}

// A failure that our own code notices.
struct Failure {
  lta_status status;
  std::string text;
  std::string names;
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// The text between two marks, or "".
std::string between(const std::string& text, const char* before, const char* after) {
  auto begin = text.find(before);
  if (begin == std::string::npos) {
    return std::string();
  }
  begin += std::strlen(before);
  return text.substr(begin, text.find(after, begin) - begin);
}

// Where an error was raised: a text in PyTorch 1, made when it is asked for in PyTorch 2.
const std::string& text_of(const std::string& backtrace) { return backtrace; }

template <class Lazy>
std::string text_of(const Lazy& backtrace) {
  return backtrace ? backtrace->get() : std::string();
}

// What a c10::Error of a known cause means. Release builds are compiled with
// STRIP_ERROR_MESSAGES, where most messages are the failed condition and a file; the marks below
// are those that survive: conditions, messages raised by selection_error.cpp, and those of the
// units that are compiled unstripped (Dispatcher.cpp, mobile/function.cpp).
lta_status fail_with(const c10::Error& error, lta_status fallback) {
  const std::string& message = error.msg();
  std::string text = error.what_without_backtrace();
  if (contains(message, "not selected for kernel tag ")) {
    std::string names = between(message, "kernel tag ", "\n");
    names += '\n';
    names += between(message, "dtype '", "'");
    return fail(LTA_MISSING_DTYPE, std::move(text), std::move(names));
  }
  std::string name = between(message, "operator '", "' not selected: ");
  if (!name.empty()) {
    return fail(LTA_MISSING_OPERATOR, std::move(text), std::move(name));
  }
  name = between(message, "Could not find schema for ", " but we found");
  if (!name.empty()) {
    if (name.back() == '.') { // an operator without an overload name
      name.pop_back();
    }
    return fail(LTA_MISSING_OPERATOR, std::move(text), std::move(name));
  }
  name = between(message, "Following ops cannot be found: [", "]");
  for (size_t at; (at = name.find(", ")) != std::string::npos;) {
    name.replace(at, 2, "\n");
  }
  if (!name.empty() || contains(message, "unsupported_op_names.empty()")) {
    return fail(LTA_MISSING_OPERATOR, std::move(text), std::move(name));
  }
  if (contains(message, "kMinSupportedBytecodeVersion") ||
      contains(message, "Lite Interpreter version number does not match")) {
    return fail(LTA_UNSUPPORTED_MODEL,
                "the model's bytecode version is not one that this runtime reads: "
                "want " LTA_BYTECODE);
  }
  if (contains(message, "DefaultCPUAllocator")) {
    return fail(LTA_OUT_OF_MEMORY, std::move(text));
  }
  // Where it was raised: all that tells one stripped message from another.
  const std::string place = between(text_of(error.backtrace()), "Exception raised from ", " (most recent");
  if (contains(place, "inline_container.cc")) {
    text.insert(0, "the archive is damaged: ");
  }
  if (!place.empty()) {
    text += " (raised from ";
    text += place;
    text += ')';
  }
  return fail(fallback, std::move(text));
}

// Turns the exception that is being handled into a status. Not inline, so that each entry point
// carries one handler.
__attribute__((noinline)) lta_status fail_with_current(lta_status fallback) noexcept {
  try {
    try {
      throw;
    } catch (const Failure& failure) {
      return fail(failure.status, failure.text, failure.names);
    } catch (const std::bad_alloc&) {
      return fail(LTA_OUT_OF_MEMORY, "out of memory");
    } catch (const c10::Error& error) {
      return fail_with(error, fallback);
    } catch (const std::exception& error) {
      return fail(fallback, error.what());
    } catch (...) {
      return fail(LTA_INTERNAL, "an exception of an unknown type");
    }
  } catch (...) { // no memory for the text: an empty one needs none
    last_error().status = LTA_OUT_OF_MEMORY;
    last_error().text.clear();
    last_error().names.clear();
    return LTA_OUT_OF_MEMORY;
  }
}

template <class Body>
lta_status guarded(lta_status fallback, Body body) noexcept {
  try {
    body();
    return LTA_OK;
  } catch (...) {
    return fail_with_current(fallback);
  }
}

lta_value handle_of(IValue value) { return lta_value{std::move(value)}; }
lta_value handle_of(lta_value value) { return value; }

template <class Body>
lta_value* guarded_value(Body body) noexcept {
  try {
    return new lta_value(handle_of(body()));
  } catch (...) {
    fail_with_current(LTA_INTERNAL);
    return nullptr;
  }
}

// Around what calls operators or looks them up: no add-on registers any meanwhile, and no fork happens.
struct Using {
  Using() { if (lta::extension) pthread_rwlock_rdlock(&lta::extension->in_use); }
  ~Using() { if (lta::extension) pthread_rwlock_unlock(&lta::extension->in_use); }
  Using(const Using&) = delete;
  const lta::Call call; // the last to be left
};

// Around what a model runs.
struct Run {
  Run() { lta::begin_run(); }
  ~Run() {
    if (lta::end_of_run) {
      lta::end_of_run();
    }
    lta::end_run();
  }
  Run(const Run&) = delete;
  const Using operators;
};

// Not inline: raising costs more code than whatever comes to it.
[[noreturn]] __attribute__((noinline)) void refuse(lta_status status, const char* text,
                                                   const char* more = "") {
  Failure failure{status, text, std::string()};
  failure.text += more;
  throw failure;
}

void require(bool condition, const char* text) {
  if (!condition) {
    refuse(LTA_INVALID_ARGUMENT, text);
  }
}

// ---- Values ----

lta_kind kind_of(const IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? LTA_KIND_TENSOR : LTA_KIND_NONE;
  }
  if (value.isNone()) return LTA_KIND_NONE;
  if (value.isBool()) return LTA_KIND_BOOL;
  if (value.isInt()) return LTA_KIND_INT;
  if (value.isDouble()) return LTA_KIND_DOUBLE;
  if (value.isString()) return LTA_KIND_STRING;
  if (value.isList()) return LTA_KIND_LIST;
  if (value.isTuple()) return LTA_KIND_TUPLE;
  if (value.isGenericDict()) return LTA_KIND_DICT;
  return LTA_KIND_OTHER;
}

const IValue& of_kind(const lta_value* value, lta_kind kind) {
  require(value != nullptr, "the value is NULL");
  if (kind_of(value->value) != kind) {
    refuse(LTA_WRONG_KIND, "the value is of another kind");
  }
  return value->value;
}

c10::TypePtr type_of(lta_kind kind) {
  switch (kind) {
    case LTA_KIND_BOOL: return c10::BoolType::get();
    case LTA_KIND_INT: return c10::IntType::get();
    case LTA_KIND_DOUBLE: return c10::FloatType::get();
    case LTA_KIND_STRING: return c10::StringType::get();
    case LTA_KIND_TENSOR: return c10::TensorType::get();
    case LTA_KIND_NONE: return c10::NoneType::get();
    default: return c10::AnyType::get();
  }
}

// The type that a model's signature gives such a value. Unlike IValue::type() it says Tensor for
// every tensor, not Tensor of these sizes, which no List[Tensor] would accept.
c10::TypePtr type_of(const IValue& value) {
  switch (kind_of(value)) {
    case LTA_KIND_LIST:
      return c10::ListType::create(value.toList().elementType());
    case LTA_KIND_DICT: {
      auto dict = value.toGenericDict();
      return c10::DictType::create(dict.keyType(), dict.valueType());
    }
    case LTA_KIND_TUPLE: {
      std::vector<c10::TypePtr> types;
      for (const IValue& item : value.toTupleRef().elements()) {
        types.push_back(type_of(item));
      }
      return c10::TupleType::create(std::move(types));
    }
    case LTA_KIND_OTHER:
      return value.type();
    default:
      return type_of(kind_of(value));
  }
}

// PyTorch frees a container's items by recursion.
const unsigned kMaxDepth = 64;

// The depth of a container of these items, none of which is NULL.
unsigned depth_over(const lta_value* const* items, size_t count) {
  unsigned depth = 1;
  for (size_t i = 0; i < count; ++i) {
    require(items[i] != nullptr, "an item is NULL");
    depth = items[i]->depth < depth ? depth : items[i]->depth + 1;
  }
  require(depth <= kMaxDepth, "the values nest more than 64 deep");
  return depth;
}

// An item of a container.
lta_value* new_item(const lta_value& container, const IValue& item) {
  return new lta_value{item, container.depth > 0 ? container.depth - 1 : 0};
}

const IValue& as_key(const lta_value& value) {
  const lta_kind kind = kind_of(value.value);
  require(kind >= LTA_KIND_BOOL && kind <= LTA_KIND_TENSOR, "a key of this kind");
  return value.value;
}

// One type for all items: theirs if they agree, Optional of it if some are None, else Any.
c10::TypePtr common_type(lta_kind empty, const lta_value* const* items, size_t count) {
  c10::TypePtr common;
  bool has_none = false;
  for (size_t i = 0; i < count; ++i) {
    if (kind_of(items[i]->value) == LTA_KIND_NONE) {
      has_none = true;
      continue;
    }
    c10::TypePtr type = type_of(items[i]->value);
    if (common && !(*common == *type)) {
      return c10::AnyType::get();
    }
    common = std::move(type);
  }
  if (!common) {
    return type_of(count == 0 ? empty : LTA_KIND_NONE);
  }
  return has_none ? c10::OptionalType::create(common) : common;
}

// ---- Tensors ----

struct Layout {
  c10::ScalarType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  size_t nbytes = 0;
};

// More is no tensor that a kernel takes, and each dimension is a level of copy_strided().
const size_t kMaxDims = 64;

// PyTorch does not check for overflow in mobile builds: it is done here.
size_t checked_multiply(size_t a, size_t b) {
  size_t result = 0;
  // PyTorch keeps sizes in int64_t.
  require(!__builtin_mul_overflow(a, b, &result) && result <= size_t(INT64_MAX),
          "the tensor is too large");
  return result;
}

Layout layout_of(lta_dtype dtype, size_t ndim, const int64_t* shape, const int64_t* strides,
                 size_t nbytes) {
  const size_t item = lta_dtype_size(dtype);
  require(item != 0, "not a dtype that a tensor can be made of");
  require(ndim == 0 || shape != nullptr, "the shape is NULL");
  require(ndim <= kMaxDims, "the tensor has more than 64 dimensions");
  Layout layout;
  layout.dtype = c10::ScalarType(dtype);
  layout.shape.assign(shape, shape + ndim);
  layout.strides.resize(ndim);
  size_t elements = 1;
  for (size_t i = ndim; i-- > 0;) {
    require(shape[i] >= 0, "a size is negative");
    require(strides == nullptr || strides[i] >= 0, "a stride is negative");
    layout.strides[i] = strides ? strides[i] : int64_t(elements);
    // As PyTorch: the stride next to a size of 0 is as if the size were 1.
    elements = checked_multiply(elements, shape[i] > 0 ? size_t(shape[i]) : 1);
  }
  checked_multiply(elements, item); // what it takes to read it, which strides of 0 make more
  size_t span = 1; // elements from the first to the last, both counted
  for (size_t i = 0; i < ndim; ++i) {
    if (shape[i] == 0) {
      span = 0;
      break;
    }
    const size_t reach = checked_multiply(size_t(layout.strides[i]), size_t(shape[i] - 1));
    require(span <= size_t(INT64_MAX) - reach, "the tensor is too large");
    span += reach;
  }
  layout.nbytes = checked_multiply(span, item);
  require(layout.nbytes == nbytes, "nbytes is not what shape, strides and dtype span");
  return layout;
}

// What at::from_blob() makes, without its detour through the dispatcher's guards.
at::Tensor tensor_over(c10::DataPtr data, const Layout& layout) {
  const auto type = c10::scalarTypeToTypeMeta(layout.dtype);
  c10::Storage storage(c10::Storage::use_byte_size_t(), layout.nbytes, std::move(data),
                       /*allocator=*/nullptr, /*resizable=*/false);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), type);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(layout.shape, layout.strides);
  return tensor;
}

// The caller's memory under a tensor. A DataPtr alone deletes no context that is NULL.
struct Loan {
  void (*deleter)(void*);
  void* context;
};

void end_loan(void* context) {
  const std::unique_ptr<Loan> loan(static_cast<Loan*>(context));
  loan->deleter(loan->context);
}

// PyTorch 2 lends a tensor's memory for reading alone.
void* data_of(const at::Tensor& tensor) {
  return const_cast<void*>(tensor.unsafeGetTensorImpl()->data());
}

void fill_tensor(const at::Tensor& tensor, const void* data, size_t nbytes) {
  if (nbytes == 0) {
    return;
  }
  if (data) {
    std::memcpy(data_of(tensor), data, nbytes);
  } else {
    std::memset(data_of(tensor), 0, nbytes);
  }
}

bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && tensor.has_storage();
}

// Copies one strided block in row-major order; returns where the next one goes.
char* copy_strided(const char* from, char* to, const c10::TensorImpl& tensor, size_t dim,
                   size_t item) {
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (dim == sizes.size() || (dim + 1 == sizes.size() && strides[dim] == 1)) {
    const size_t count = dim == sizes.size() ? item : size_t(sizes[dim]) * item;
    std::memcpy(to, from, count);
    return to + count;
  }
  for (int64_t i = 0; i < sizes[dim]; ++i) {
    to = copy_strided(from + i * strides[dim] * int64_t(item), to, tensor, dim + 1, item);
  }
  return to;
}

// How many elements the sizes say there are. tensor.numel() is a product without a check.
size_t elements_of(const at::Tensor& tensor) {
  require(tensor.sizes().size() <= kMaxDims, "the tensor has more than 64 dimensions");
  size_t elements = 1;
  for (const int64_t size : tensor.sizes()) {
    require(size >= 0, "a size of the tensor is negative");
    elements = checked_multiply(elements, size_t(size));
  }
  return elements;
}

// Whether all elements, of which there are some, lie in the storage: an operator without a check
// can make a tensor that does not.
bool is_within_storage(const at::Tensor& tensor) {
  const size_t available = tensor.storage().nbytes() / tensor.itemsize();
  size_t last = size_t(tensor.storage_offset());
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    size_t reach = 0;
    if (tensor.stride(dim) < 0 ||
        __builtin_mul_overflow(size_t(tensor.stride(dim)), size_t(tensor.size(dim) - 1), &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      return false;
    }
  }
  return last < available;
}

lta_tensor_info describe(const at::Tensor& tensor) {
  const bool dense = is_dense(tensor);
  lta_tensor_info info;
  info.dtype = lta_dtype(tensor.scalar_type());
  info.ndim = tensor.sizes().size();
  info.shape = tensor.sizes().data();
  info.strides = dense ? tensor.strides().data() : nullptr;
  info.numel = elements_of(tensor);
  info.nbytes = checked_multiply(info.numel, lta_dtype_size(info.dtype));
  require(!dense || info.nbytes == 0 || is_within_storage(tensor),
          "the tensor reaches beyond its memory: the model is damaged");
  info.data = dense && info.numel ? data_of(tensor) : nullptr;
  info.is_contiguous = dense && tensor.is_contiguous();
  info.is_quantized = tensor.is_quantized();
  return info;
}

// The quantizer's fields are read without get_qtensorimpl(), which would pull in Quantizer.cpp.
at::QuantizerPtr quantizer_of(const at::Tensor& tensor) {
  if (!tensor.is_quantized()) {
    refuse(LTA_WRONG_KIND, "the tensor is not quantised");
  }
  return static_cast<at::QTensorImpl*>(tensor.unsafeGetTensorImpl())->quantizer();
}

template <class Quantizer>
Quantizer& quantizer_of_scheme(const at::QuantizerPtr& quantizer, c10::QScheme scheme) {
  if (quantizer->qscheme() != scheme) {
    refuse(LTA_WRONG_KIND, "the tensor is quantised by another scheme");
  }
  return static_cast<Quantizer&>(*quantizer);
}

// By name and boxed: nothing links the operator in where the models do not need it.
at::Tensor empty_quantized(const Layout& layout, double scale, int64_t zero_point) {
  const char* name = "aten::_empty_affine_quantized";
  const Using operators;
  auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  if (!op) {
    throw Failure{LTA_MISSING_OPERATOR,
                  "quantised inputs need aten::_empty_affine_quantized, which was not selected "
                  "into this library",
                  name};
  }
  c10::InferenceMode guard;
  torch::jit::Stack stack{IValue(layout.shape), IValue(layout.dtype), IValue(c10::kStrided),
                          IValue(c10::Device(c10::kCPU)), IValue(false), IValue(scale),
                          IValue(zero_point), IValue(int64_t(c10::MemoryFormat::Contiguous))};
  op->callBoxed(&stack);
  return stack.back().toTensor();
}

// ---- Modules ----

std::shared_ptr<lta::ModelFile> open_model(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    const bool opened = file >= 0;
    if (opened) {
      ::close(file);
    }
    refuse(LTA_LOAD_FAILED, opened ? "not a file: " : "cannot be opened: ", path);
  }
  return std::make_shared<lta::ModelFile>(file, size_t(status.st_size));
}

// A model's bytes: a file's, or those that a caller lends.
struct Archive {
  std::shared_ptr<lta::ModelFile> file;
  const char* data;
  size_t size;

  // Nothing past their end: a damaged archive asks for anything.
  size_t read(uint64_t at, void* buffer, size_t count) const {
    if (file) {
      return lta::read_record(file, at, buffer, count);
    }
    const size_t begin = at < size ? size_t(at) : size;
    const size_t available = count < size - begin ? count : size - begin;
    std::memcpy(buffer, data + begin, available);
    return available;
  }

  bool has_at(uint64_t at, const char (&mark)[5]) const {
    char there[4];
    return read(at, there, 4) == 4 && std::memcmp(there, mark, 4) == 0;
  }

  bool holds(const char* text) const {
    const size_t length = std::strlen(text);
    std::string part(size_t(1) << 16, '\0');
    for (size_t at = 0;; at += part.size() - length) {
      const size_t there = read(at, &part[0], part.size());
      if (::memmem(part.data(), there, text, length) != nullptr) {
        return true;
      }
      if (there < part.size()) {
        return false;
      }
    }
  }
};

class ArchiveReader : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit ArchiveReader(const Archive& archive) : archive_(archive) {}
  size_t size() const override { return archive_.size; }
  size_t read(uint64_t at, void* buffer, size_t count, const char*) const override {
    return archive_.read(at, buffer, count);
  }

 private:
  const Archive& archive_; // outlives it
};

// Upstream's own check stops at the first missing operator and its message is stripped in release
// builds, so models are loaded without it and checked here.
void require_operators(const mobile::Module& module) {
  std::string names;
  std::string text("operators that the model names were not selected into this library: ");
  for (const auto& function : module.compilation_unit().methods()) {
    if (function->get_code().initialized) { // every operator was found
      continue;
    }
    for (const c10::OperatorName& op : function->get_code().op_names_) {
      std::string name = mobile::operator_str(op);
      const bool known = ('\n' + names + '\n').find('\n' + name + '\n') != std::string::npos;
      if (known || mobile::makeOperatorFunction(op, c10::nullopt)) {
        continue;
      }
      if (!names.empty()) {
        names += '\n';
        text += ", ";
      }
      names += name;
      text += name;
    }
  }
  if (!names.empty()) {
    throw Failure{LTA_MISSING_OPERATOR, std::move(text), std::move(names)};
  }
}

// What an archive is that could not be loaded, if it is whole and of another format. Its end is one's
// of a zip without a comment.
void require_bytecode(const Archive& archive) {
  const size_t end = 22;
  if (archive.size < end || !archive.has_at(archive.size - end, "PK\5\6") ||
      archive.holds("/bytecode.pkl")) {
    return;
  }
  refuse(LTA_LOAD_FAILED, "not a lite-interpreter model: ",
         archive.holds("/code/__torch__") ? "it is TorchScript of torch.jit.save; write it with "
                                            "module._save_for_lite_interpreter(path)"
                                          : "the archive has no bytecode.pkl");
}

// Of a heap that ends with more free memory than twice the largest block that was once mapped by itself
// and freed, glibc gives the end back to the system (mallopt(3), M_TRIM_THRESHOLD). Until a process has
// freed a large one, the limit is 128 KB: every run would get its activations page by page anew.
void keep_freed_memory() {
#ifdef __GLIBC__
  void* volatile block = std::malloc(4 << 20); // volatile: what is not used is not allocated
  std::free(block);
#endif
}

std::unique_ptr<lta_module> load(const Archive& archive) {
  if (archive.size < 8 || !archive.has_at(0, "PK\3\4")) {
    refuse(LTA_LOAD_FAILED, "not a lite-interpreter model: it is not a zip archive");
  }
  const Using operators;
  c10::InferenceMode guard;
  torch::jit::ExtraFilesMap extra_files;
  auto loaded = std::make_unique<lta_module>();
  keep_freed_memory();
  const lta::Loading loading(lta::prepare_module ? archive.file : nullptr);
  try {
    loaded->module = torch::jit::_load_for_mobile_impl(
        std::make_unique<ArchiveReader>(archive), c10::nullopt, extra_files,
        /*module_load_options=*/0);
  } catch (const c10::Error&) {
    require_bytecode(archive);
    throw;
  }
  require_operators(loaded->module);
  if (lta::shorten_module) {
    lta::shorten_module(loaded->module);
  }
  if (lta::prepare_module) {
    lta::prepare_module(loaded->module);
  }
  const auto class_name = loaded->module._ivalue()->type()->name();
  for (const auto& function : loaded->module.compilation_unit().methods()) {
    if (class_name && function->qualname().prefix() == class_name->qualifiedName()) {
      loaded->methods.push_back(function.get());
    }
  }
  return loaded;
}

mobile::Function& method_of(const lta_module& module, const char* name) {
  for (mobile::Function* method : module.methods) {
    if (method->name() == name) {
      return *method;
    }
  }
  Failure failure{LTA_NO_SUCH_METHOD, "the model has no method ", std::string()};
  failure.text += name;
  for (const mobile::Function* method : module.methods) {
    failure.text += failure.names.empty() ? "; it has " : ", ";
    failure.text += method->name();
    failure.names += method->name();
    failure.names += '\n';
  }
  throw failure;
}

// See signature.h.
void require_fit(const mobile::Function& method, const lta_value* const* arguments, size_t count,
                 bool kinds) {
  Failure failure{kinds ? LTA_WRONG_KIND : LTA_INVALID_ARGUMENT, std::string(), std::string()};
  lta::append_fault(failure.text, method, arguments, count, kinds);
  if (!failure.text.empty()) {
    throw failure;
  }
}

// See fitted.h. Its arguments are numbered from 1: the first is self.
void fit_containers(std::vector<IValue>& values, const mobile::Function& method) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (lta::is_container(values[i]) && method.hasSchema() &&
        i + 1 < method.getSchema().arguments().size()) {
      lta::make_fit(values[i], *method.getSchema().arguments()[i + 1].type());
    }
  }
}

struct DtypeRow {
  const char* name;
  unsigned char size;
};
// In the order of lta_dtype.
const DtypeRow kDtypes[] = {
    {"uint8", 1},      {"int8", 1},       {"int16", 2},    {"int32", 4},  {"int64", 8},
    {"float16", 2},    {"float32", 4},    {"float64", 8},  {"complex32", 4},
    {"complex64", 8},  {"complex128", 16}, {"bool", 1},    {"qint8", 1},  {"quint8", 1},
    {"qint32", 4},     {"bfloat16", 2},   {"quint4x2", 0}, {"quint2x4", 0},
};
const size_t kDtypeCount = sizeof kDtypes / sizeof kDtypes[0];

bool is_quantized(lta_dtype dtype) {
  return dtype == LTA_QINT8 || dtype == LTA_QUINT8 || dtype == LTA_QINT32 ||
      dtype == LTA_QUINT4X2 || dtype == LTA_QUINT2X4;
}

} // namespace

// ---- The library ----

uint32_t lta_api_version(void) { return LTA_API_VERSION; }

const char* lta_version(void) {
  static_assert(caffe2::serialize::kMinSupportedBytecodeVersion == LTA_BYTECODE_LEAST &&
                    caffe2::serialize::kMaxSupportedBytecodeVersion == LTA_BYTECODE_MOST,
                "the dialect's facts and PyTorch's headers name the same versions");
  return "PyTorch " LTA_PYTORCH ", bytecode " LTA_BYTECODE;
}

lta_status lta_library_extend(const char* path) {
  return guarded(LTA_LOAD_FAILED, [&] {
    const lta::Call call;
    require(path != nullptr, "the path is NULL");
    require(lta::extension != nullptr,
            "this library takes no add-ons: its app.yaml does not say `extensible: true`");
    std::string fault = lta::extension->extend(path);
    if (!fault.empty()) {
      throw Failure{LTA_LOAD_FAILED, std::move(fault), std::string()};
    }
  });
}

int lta_threads(void) { return lta::wanted_threads(); }

lta_status lta_set_threads(int count) {
  return guarded(LTA_INVALID_ARGUMENT, [&] {
    require(count >= 1 && count <= lta::kMostThreads,
            "the number of threads is not one from 1 to 1024");
    require(lta::set_wanted_threads(count),
            "this library has no threads: its app.yaml says `threads: 1`");
  });
}

int lta_has_operator(const char* name) {
  bool found = false;
  guarded(LTA_INTERNAL, [&] {
    require(name != nullptr, "the name is NULL");
    const Using operators;
    const char* colon = std::strstr(name, "::");
    const char* dot = std::strchr(colon ? colon : name, '.');
    c10::OperatorName op(dot ? std::string(name, dot) : std::string(name), dot ? dot + 1 : "");
    found = mobile::makeOperatorFunction(std::move(op), c10::nullopt).has_value();
  });
  return found;
}

const char* lta_last_error(void) { return last_error().text.c_str(); }
const char* lta_last_error_names(void) { return last_error().names.c_str(); }
lta_status lta_last_status(void) { return last_error().status; }

const char* lta_status_name(lta_status status) {
  static const char* const names[] = {
      "OK",          "INVALID_ARGUMENT",  "WRONG_KIND",    "LOAD_FAILED",
      "UNSUPPORTED_MODEL", "MISSING_OPERATOR", "MISSING_DTYPE", "NO_SUCH_METHOD",
      "RUN_FAILED",  "OUT_OF_MEMORY",     "INTERNAL"};
  return size_t(status) < sizeof names / sizeof names[0] ? names[status] : "INTERNAL";
}

// ---- Modules ----

lta_status lta_module_load(const char* path, lta_module** module) {
  return guarded(LTA_LOAD_FAILED, [&] {
    require(path != nullptr && module != nullptr, "path or module is NULL");
    const std::shared_ptr<lta::ModelFile> file = open_model(path);
    *module = load({file, nullptr, file->size()}).release();
    file->close_unless_needed();
  });
}

lta_status lta_module_load_memory(const void* data, size_t size, lta_module** module) {
  return guarded(LTA_LOAD_FAILED, [&] {
    require(module != nullptr, "module is NULL");
    require(data != nullptr || size == 0, "the data are NULL");
    *module = load({nullptr, static_cast<const char*>(data), size}).release();
  });
}

void lta_module_free(lta_module* module) {
  const lta::Call call; // PyTorch's allocator locks where it frees
  delete module;
  if (lta::end_of_module) {
    lta::end_of_module();
  }
}

size_t lta_module_method_count(const lta_module* module) {
  return module ? module->methods.size() : 0;
}

const char* lta_module_method_name(const lta_module* module, size_t index) {
  return module && index < module->methods.size() ? module->methods[index]->name().c_str()
                                                   : nullptr;
}

int64_t lta_module_bytecode_version(const lta_module* module) {
  return module ? module->module.bytecode_version() : 0;
}

lta_value* lta_module_schema(const lta_module* module, const char* method) {
  return guarded_value([&] {
    require(module != nullptr && method != nullptr, "module or method is NULL");
    std::string text;
    lta::append_schema(text, method_of(*module, method), /*with_result=*/true);
    return text;
  });
}

lta_status lta_module_run(lta_module* module, const char* method,
                          const lta_value* const* arguments, size_t count, lta_value** result) {
  return guarded(LTA_RUN_FAILED, [&] {
    require(module != nullptr && method != nullptr && result != nullptr,
            "module, method or result is NULL");
    require(arguments != nullptr || count == 0, "the arguments are NULL");
    c10::InferenceMode guard;
    std::vector<IValue> stack;
    stack.reserve(count + 1 + 16); // and what few methods have more of at once
    for (size_t i = 0; i < count; ++i) {
      require(arguments[i] != nullptr, "an argument is NULL");
      stack.push_back(arguments[i]->value);
    }
    mobile::Function& called = method_of(*module, method);
    require_fit(called, arguments, count, /*kinds=*/false);
    fit_containers(stack, called);
    const Run run;
    try {
      *result = new lta_value{mobile::Method(&module->module, &called)(std::move(stack))};
    } catch (const c10::Error&) {
      require_fit(called, arguments, count, /*kinds=*/true);
      throw;
    }
  });
}

// ---- Values ----

lta_value* lta_none(void) { return guarded_value([] { return IValue(); }); }
lta_value* lta_bool(int value) { return guarded_value([&] { return value != 0; }); }
lta_value* lta_int(int64_t value) { return guarded_value([&] { return value; }); }
lta_value* lta_double(double value) { return guarded_value([&] { return value; }); }

lta_value* lta_string(const char* data, size_t size) {
  return guarded_value([&] {
    require(data != nullptr || size == 0, "the string is NULL");
    return size ? std::string(data, size) : std::string();
  });
}

lta_value* lta_tuple(const lta_value* const* items, size_t count) {
  return guarded_value([&] {
    require(items != nullptr || count == 0, "the items are NULL");
    const unsigned depth = depth_over(items, count);
    std::vector<IValue> elements;
    for (size_t i = 0; i < count; ++i) {
      elements.push_back(items[i]->value);
    }
    return lta_value{c10::ivalue::Tuple::create(std::move(elements)), depth};
  });
}

lta_value* lta_list(lta_kind empty, const lta_value* const* items, size_t count) {
  return guarded_value([&] {
    require(items != nullptr || count == 0, "the items are NULL");
    const unsigned depth = depth_over(items, count);
    c10::impl::GenericList list(common_type(empty, items, count));
    list.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      list.push_back(items[i]->value);
    }
    return lta_value{IValue(list), depth};
  });
}

lta_value* lta_dict(lta_kind empty_key, lta_kind empty_value, const lta_value* const* keys,
                    const lta_value* const* values, size_t count) {
  return guarded_value([&] {
    require((keys != nullptr && values != nullptr) || count == 0, "keys or values are NULL");
    const unsigned depth = std::max(depth_over(keys, count), depth_over(values, count));
    c10::impl::GenericDict dict(common_type(empty_key, keys, count),
                                common_type(empty_value, values, count));
    for (size_t i = 0; i < count; ++i) {
      dict.insert_or_assign(as_key(*keys[i]), values[i]->value);
    }
    return lta_value{IValue(dict), depth};
  });
}

void lta_value_free(lta_value* value) {
  const lta::Call call; // as in lta_module_free
  delete value;
}

lta_kind lta_value_kind(const lta_value* value) {
  return value ? kind_of(value->value) : LTA_KIND_NONE;
}

lta_status lta_value_bool(const lta_value* value, int* result) {
  return guarded(LTA_INTERNAL, [&] {
    require(result != nullptr, "the result is NULL");
    *result = of_kind(value, LTA_KIND_BOOL).toBool();
  });
}

lta_status lta_value_int(const lta_value* value, int64_t* result) {
  return guarded(LTA_INTERNAL, [&] {
    require(result != nullptr, "the result is NULL");
    *result = of_kind(value, LTA_KIND_INT).toInt();
  });
}

lta_status lta_value_double(const lta_value* value, double* result) {
  return guarded(LTA_INTERNAL, [&] {
    require(result != nullptr, "the result is NULL");
    *result = of_kind(value, LTA_KIND_DOUBLE).toDouble();
  });
}

lta_status lta_value_string(const lta_value* value, const char** data, size_t* size) {
  return guarded(LTA_INTERNAL, [&] {
    require(data != nullptr && size != nullptr, "data or size is NULL");
    const std::string& text = of_kind(value, LTA_KIND_STRING).toStringRef();
    *data = text.c_str();
    *size = text.size();
  });
}

lta_status lta_value_size(const lta_value* value, size_t* size) {
  return guarded(LTA_INTERNAL, [&] {
    require(size != nullptr, "size is NULL");
    switch (lta_value_kind(value)) {
      case LTA_KIND_LIST: *size = value->value.toList().size(); break;
      case LTA_KIND_DICT: *size = value->value.toGenericDict().size(); break;
      default: *size = of_kind(value, LTA_KIND_TUPLE).toTupleRef().elements().size();
    }
  });
}

lta_status lta_value_item(const lta_value* value, size_t index, lta_value** item) {
  return guarded(LTA_INTERNAL, [&] {
    require(item != nullptr, "item is NULL");
    if (lta_value_kind(value) == LTA_KIND_LIST) {
      const auto list = value->value.toList();
      require(index < list.size(), "the index is out of range");
      *item = new_item(*value, list.get(index));
    } else {
      const auto& elements = of_kind(value, LTA_KIND_TUPLE).toTupleRef().elements();
      require(index < elements.size(), "the index is out of range");
      *item = new_item(*value, elements[index]);
    }
  });
}

lta_status lta_value_entry(const lta_value* value, size_t index, lta_value** key,
                           lta_value** item) {
  return guarded(LTA_INTERNAL, [&] {
    require(key != nullptr && item != nullptr, "key or item is NULL");
    const auto dict = of_kind(value, LTA_KIND_DICT).toGenericDict();
    require(index < dict.size(), "the index is out of range");
    auto entry = dict.begin();
    for (size_t i = 0; i < index; ++i) {
      ++entry;
    }
    std::unique_ptr<lta_value> found(new_item(*value, entry->key()));
    *item = new_item(*value, entry->value());
    *key = found.release();
  });
}

lta_status lta_value_find(const lta_value* value, const lta_value* key, lta_value** item) {
  return guarded(LTA_INTERNAL, [&] {
    require(key != nullptr && item != nullptr, "key or item is NULL");
    const auto dict = of_kind(value, LTA_KIND_DICT).toGenericDict();
    const auto found = dict.find(as_key(*key));
    require(found != dict.end(), "the dict has no such key");
    *item = new_item(*value, found->value());
  });
}

// ---- Tensors ----

size_t lta_dtype_size(lta_dtype dtype) {
  return size_t(dtype) < kDtypeCount ? kDtypes[dtype].size : 0;
}

const char* lta_dtype_name(lta_dtype dtype) {
  return size_t(dtype) < kDtypeCount ? kDtypes[dtype].name : nullptr;
}

lta_value* lta_tensor_copy(lta_dtype dtype, size_t ndim, const int64_t* shape,
                           const int64_t* strides, const void* data, size_t nbytes) {
  return guarded_value([&] {
    require(!is_quantized(dtype), "a quantised tensor needs a scale: lta_tensor_copy_quantized");
    const Layout layout = layout_of(dtype, ndim, shape, strides, nbytes);
    auto tensor = at::Tensor(
        at::detail::empty_strided_cpu(layout.shape, layout.strides, layout.dtype));
    fill_tensor(tensor, data, nbytes);
    return tensor;
  });
}

lta_value* lta_tensor_borrow(lta_dtype dtype, size_t ndim, const int64_t* shape,
                             const int64_t* strides, void* data, size_t nbytes,
                             void (*deleter)(void*), void* context) {
  lta_value* result = nullptr;
  guarded(LTA_INTERNAL, [&] {
    require(!is_quantized(dtype), "a quantised tensor needs a scale: lta_tensor_copy_quantized");
    const Layout layout = layout_of(dtype, ndim, shape, strides, nbytes);
    require(data != nullptr || nbytes == 0, "the data are NULL");
    at::Tensor tensor = tensor_over(c10::DataPtr(data, c10::kCPU), layout);
    auto handle = std::make_unique<lta_value>(lta_value{IValue(tensor)});
    // Last, as nothing can fail after it: until then the deleter is called below.
    if (deleter) {
      auto* const loan = new Loan{deleter, context};
      tensor.unsafeGetTensorImpl()->unsafe_storage().set_data_ptr(
          c10::DataPtr(data, loan, end_loan, c10::kCPU));
    }
    result = handle.release();
  });
  if (result == nullptr && deleter) {
    deleter(context);
  }
  return result;
}

lta_value* lta_tensor_copy_quantized(lta_dtype dtype, size_t ndim, const int64_t* shape,
                                     const void* data, size_t nbytes, double scale,
                                     int64_t zero_point) {
  return guarded_value([&] {
    require(is_quantized(dtype), "not a quantised dtype");
    const Layout layout = layout_of(dtype, ndim, shape, nullptr, nbytes);
    at::Tensor tensor = empty_quantized(layout, scale, zero_point);
    fill_tensor(tensor, data, nbytes);
    return tensor;
  });
}

lta_status lta_tensor_describe(const lta_value* value, lta_tensor_info* info) {
  return guarded(LTA_INTERNAL, [&] {
    require(info != nullptr, "info is NULL");
    *info = describe(of_kind(value, LTA_KIND_TENSOR).toTensor());
  });
}

lta_status lta_tensor_read(const lta_value* value, void* buffer, size_t nbytes) {
  return guarded(LTA_INTERNAL, [&] {
    const at::Tensor& tensor = of_kind(value, LTA_KIND_TENSOR).toTensor();
    const lta_tensor_info info = describe(tensor);
    require(is_dense(tensor) && lta_dtype_size(info.dtype) != 0,
            "the tensor is not dense, or packs several elements into a byte");
    // A lazily conjugated or negated view keeps the original's bytes and a mark.
    require(!tensor.is_conj() && !tensor.is_neg(),
            "the tensor is a lazy view: copy it in the model");
    require(nbytes == info.nbytes, "nbytes is not that of the tensor");
    if (nbytes == 0) {
      return;
    }
    require(buffer != nullptr, "the buffer is NULL");
    if (info.is_contiguous) {
      std::memcpy(buffer, info.data, nbytes);
    } else {
      copy_strided(static_cast<const char*>(info.data), static_cast<char*>(buffer),
                   *tensor.unsafeGetTensorImpl(), 0, lta_dtype_size(info.dtype));
    }
  });
}

lta_status lta_tensor_quantization(const lta_value* value, double* scale, int64_t* zero_point) {
  return guarded(LTA_INTERNAL, [&] {
    require(scale != nullptr && zero_point != nullptr, "scale or zero_point is NULL");
    const auto quantizer = quantizer_of(of_kind(value, LTA_KIND_TENSOR).toTensor());
    const auto& affine =
        quantizer_of_scheme<at::PerTensorAffineQuantizer>(quantizer, c10::kPerTensorAffine);
    *scale = affine.scale();
    *zero_point = affine.zero_point();
  });
}

lta_status lta_tensor_channel_quantization(const lta_value* value, int64_t* axis,
                                           lta_value** scales, lta_value** zero_points) {
  return guarded(LTA_INTERNAL, [&] {
    require(axis != nullptr && scales != nullptr && zero_points != nullptr,
            "axis, scales or zero_points is NULL");
    const auto quantizer = quantizer_of(of_kind(value, LTA_KIND_TENSOR).toTensor());
    const auto& affine =
        quantizer_of_scheme<at::PerChannelAffineQuantizer>(quantizer, c10::kPerChannelAffine);
    auto first = std::make_unique<lta_value>(lta_value{IValue(affine.scales())});
    *zero_points = new lta_value{IValue(affine.zero_points())};
    *scales = first.release();
    *axis = affine.axis();
  });
}
