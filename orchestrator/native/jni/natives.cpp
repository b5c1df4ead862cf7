// The native methods behind the Java API: the C API, one function each.
//
// Contract
//   - A handle of the C API is a Java long. Java calls no method with a handle that was freed, and
//     none with a module that another thread is using (Handle.java, Module.java).
//   - Text crosses as UTF-8 in a byte[]: JNI's own strings are of another, "modified" UTF-8.
//   - A double crosses as its bits, so that no calling convention for floats matters.
//   - After a failure of the C API, Java's `Native.fail` has thrown what the last error says; then,
//     as after any failure of JNI, the returned value means nothing.
//   - Nothing is thrown here in C++, which is used without its library; what a method acquires it
//     releases on every path.
#include "natives.h"

#include <cstdlib>
#include <cstring>

#include "libtorch_app.h"

namespace {

using jni::Array;
using jni::Boolean;
using jni::Buffer;
using jni::Byte;
using jni::ByteArray;
using jni::Class;
using jni::Env;
using jni::Int;
using jni::Long;
using jni::LongArray;
using jni::Object;
using jni::ObjectArray;
using jni::Size;

static_assert(sizeof(Long) == sizeof(int64_t), "handles, shapes and numbers are Java longs");

Long to_java(const void* handle) { return Long(reinterpret_cast<intptr_t>(handle)); }
lta_module* module_of(Long handle) {
  return reinterpret_cast<lta_module*>(static_cast<intptr_t>(handle));
}
lta_value* value_of(Long handle) {
  return reinterpret_cast<lta_value*>(static_cast<intptr_t>(handle));
}

// ---- Errors ----

// A byte[] of a text; NULL with an exception pending. The caller deletes the reference.
ByteArray bytes_of(Env* env, const char* text, size_t size) {
  const ByteArray bytes = env->new_bytes(Size(size));
  if (bytes != nullptr) {
    env->write(bytes, Size(size), reinterpret_cast<const Byte*>(text));
  }
  return bytes;
}

// Lets Java throw. An exception that is pending already stays: it came first.
void fail(Env* env, Class self, lta_status status, const char* text, const char* names) {
  if (env->exception_pending()) {
    return;
  }
  const jni::MethodId thrower = env->static_method(self, "fail", "(I[B[B)V");
  const ByteArray first = thrower ? bytes_of(env, text, std::strlen(text)) : nullptr;
  const ByteArray second = first ? bytes_of(env, names, std::strlen(names)) : nullptr;
  if (second != nullptr) {
    jni::Argument arguments[3];
    arguments[0].i = status;
    arguments[1].l = first;
    arguments[2].l = second;
    env->call_static_void(self, thrower, arguments);
  }
  if (second != nullptr) {
    env->delete_local(second);
  }
  if (first != nullptr) {
    env->delete_local(first);
  }
}

void fail_with_last(Env* env, Class self) {
  fail(env, self, lta_last_status(), lta_last_error(), lta_last_error_names());
}

// Whether a call of the C API worked; if not, Java has thrown.
bool check(Env* env, Class self, lta_status status) {
  if (status == LTA_OK) {
    return true;
  }
  fail_with_last(env, self);
  return false;
}

Long new_value(Env* env, Class self, lta_value* value) {
  if (value == nullptr) {
    fail_with_last(env, self);
  }
  return to_java(value);
}

// ---- Arrays ----

// A copy of a Java array with one zero behind it; not valid where an exception is pending.
template <class Item, class JavaArray>
class Copy {
 public:
  Copy(Env* env, Class self, JavaArray array) : size_(env->length(array)) {
    items_ = static_cast<Item*>(std::calloc(size_t(size_) + 1, sizeof(Item)));
    if (items_ == nullptr) {
      fail(env, self, LTA_OUT_OF_MEMORY, "out of memory", "");
      return;
    }
    env->read(array, size_, items_);
  }
  ~Copy() { std::free(items_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  bool valid() const { return items_ != nullptr; }
  const Item* items() const { return items_; }
  size_t size() const { return size_t(size_); }

 private:
  Size size_;
  Item* items_ = nullptr;
};

using Bytes = Copy<Byte, ByteArray>;
using Longs = Copy<Long, LongArray>;

const char* text_of(const Bytes& bytes) { return reinterpret_cast<const char*>(bytes.items()); }

// Handles as the C API takes them.
class Values {
 public:
  Values(Env* env, Class self, LongArray handles) : longs_(env, self, handles) {
    if (!longs_.valid()) {
      return;
    }
    values_ = static_cast<const lta_value**>(
        std::malloc((longs_.size() + 1) * sizeof(const lta_value*)));
    if (values_ == nullptr) {
      fail(env, self, LTA_OUT_OF_MEMORY, "out of memory", "");
      return;
    }
    for (size_t i = 0; i < longs_.size(); ++i) {
      values_[i] = value_of(longs_.items()[i]);
    }
  }
  ~Values() { std::free(values_); }
  Values(const Values&) = delete;
  Values& operator=(const Values&) = delete;

  bool valid() const { return values_ != nullptr; }
  const lta_value* const* items() const { return values_; }
  size_t size() const { return longs_.size(); }

 private:
  Longs longs_;
  const lta_value** values_ = nullptr;
};

LongArray longs_of(Env* env, const Long* items, size_t size) {
  const LongArray array = env->new_longs(Size(size));
  if (array != nullptr) {
    env->write(array, Size(size), items);
  }
  return array;
}

// Where `size` bytes from `offset` on lie in a direct buffer, which counts its capacity in elements of
// `unit` bytes; where they do not, Java has thrown.
char* place_in(Env* env, Class self, Object buffer, Long offset, Long size, Int unit = 1) {
  char* address = env->direct_address(buffer);
  const Long capacity = env->direct_capacity(buffer) * unit;
  if (address == nullptr || offset < 0 || size < 0 || size > capacity || offset > capacity - size) {
    fail(env, self, LTA_INVALID_ARGUMENT, "the buffer is not direct, or is too short", "");
    return nullptr;
  }
  return address + offset;
}

// ---- The library ----

ByteArray version(Env* env, Class) {
  const char* text = lta_version();
  return bytes_of(env, text, std::strlen(text));
}

ByteArray selection_digest(Env* env, Class) {
  const char* text = lta_selection_digest();
  return bytes_of(env, text, std::strlen(text));
}

Boolean has_operator(Env* env, Class self, ByteArray name) {
  const Bytes text(env, self, name);
  return text.valid() && lta_has_operator(text_of(text)) ? 1 : 0;
}

// Whether the copy is there and the C API sees all of the path; where not, Java has thrown.
bool is_path(Env* env, Class self, const Bytes& text) {
  if (!text.valid()) {
    return false;
  }
  if (std::memchr(text.items(), 0, text.size()) != nullptr) {
    fail(env, self, LTA_INVALID_ARGUMENT, "the path holds a zero", "");
    return false;
  }
  return true;
}

void extend(Env* env, Class self, ByteArray path) {
  const Bytes text(env, self, path);
  if (is_path(env, self, text)) {
    check(env, self, lta_library_extend(text_of(text)));
  }
}

Int threads(Env*, Class) { return lta_threads(); }

void set_threads(Env* env, Class self, Int count) {
  check(env, self, lta_set_threads(count));
}

// ---- Modules ----

Long load(Env* env, Class self, ByteArray path) {
  const Bytes text(env, self, path);
  if (!is_path(env, self, text)) {
    return 0;
  }
  lta_module* module = nullptr;
  check(env, self, lta_module_load(text_of(text), &module));
  return to_java(module);
}

Long load_bytes(Env* env, Class self, ByteArray data) {
  const Size size = env->length(data);
  Byte* bytes = env->hold(data);
  if (bytes == nullptr) {
    return 0;
  }
  lta_module* module = nullptr;
  const lta_status status = lta_module_load_memory(bytes, size_t(size), &module);
  env->let_go(data, bytes);
  check(env, self, status);
  return to_java(module);
}

Long load_buffer(Env* env, Class self, Object data, Long offset, Long size) {
  const char* bytes = place_in(env, self, data, offset, size);
  if (bytes == nullptr) {
    return 0;
  }
  lta_module* module = nullptr;
  check(env, self, lta_module_load_memory(bytes, size_t(size), &module));
  return to_java(module);
}

void free_module(Env*, Class, Long module) { lta_module_free(module_of(module)); }

Long bytecode_version(Env*, Class, Long module) {
  return lta_module_bytecode_version(module_of(module));
}

ObjectArray methods(Env* env, Class, Long module) {
  const size_t count = lta_module_method_count(module_of(module));
  const Class bytes = env->find_class("[B");
  const ObjectArray names = bytes ? env->new_objects(Size(count), bytes) : nullptr;
  if (bytes != nullptr) {
    env->delete_local(bytes);
  }
  for (size_t i = 0; names != nullptr && i < count; ++i) {
    const char* text = lta_module_method_name(module_of(module), i);
    const ByteArray name = bytes_of(env, text, std::strlen(text));
    if (name == nullptr) {
      break;
    }
    env->set_object(names, Size(i), name);
    env->delete_local(name);
  }
  return names;
}

// A value: the text of a method's schema.
Long schema(Env* env, Class self, Long module, ByteArray method) {
  const Bytes name(env, self, method);
  return name.valid() ? new_value(env, self, lta_module_schema(module_of(module), text_of(name)))
                      : 0;
}

Long run(Env* env, Class self, Long module, ByteArray method, LongArray arguments) {
  const Bytes name(env, self, method);
  if (!name.valid()) {
    return 0;
  }
  const Values values(env, self, arguments);
  if (!values.valid()) {
    return 0;
  }
  lta_value* result = nullptr;
  check(env, self,
        lta_module_run(module_of(module), text_of(name), values.items(), values.size(), &result));
  return to_java(result);
}

// ---- Values ----

Long none(Env* env, Class self) { return new_value(env, self, lta_none()); }

Long of_bool(Env* env, Class self, Boolean value) {
  return new_value(env, self, lta_bool(value));
}

Long of_int(Env* env, Class self, Long value) { return new_value(env, self, lta_int(value)); }

Long of_double(Env* env, Class self, Long bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return new_value(env, self, lta_double(value));
}

Long of_string(Env* env, Class self, ByteArray text) {
  const Bytes bytes(env, self, text);
  return bytes.valid() ? new_value(env, self, lta_string(text_of(bytes), bytes.size())) : 0;
}

Long tuple(Env* env, Class self, LongArray items) {
  const Values values(env, self, items);
  return values.valid() ? new_value(env, self, lta_tuple(values.items(), values.size())) : 0;
}

Long list(Env* env, Class self, Int empty, LongArray items) {
  const Values values(env, self, items);
  return values.valid()
      ? new_value(env, self, lta_list(lta_kind(empty), values.items(), values.size()))
      : 0;
}

Long dict(Env* env, Class self, Int empty_key, Int empty_value, LongArray keys, LongArray items) {
  const Values first(env, self, keys);
  if (!first.valid()) {
    return 0;
  }
  const Values second(env, self, items);
  if (!second.valid()) {
    return 0;
  }
  return new_value(env, self,
                   lta_dict(lta_kind(empty_key), lta_kind(empty_value), first.items(),
                            second.items(), first.size()));
}

void free_value(Env*, Class, Long value) { lta_value_free(value_of(value)); }

Int kind(Env*, Class, Long value) { return Int(lta_value_kind(value_of(value))); }

Boolean to_bool(Env* env, Class self, Long value) {
  int result = 0;
  check(env, self, lta_value_bool(value_of(value), &result));
  return result ? 1 : 0;
}

Long to_int(Env* env, Class self, Long value) {
  int64_t result = 0;
  check(env, self, lta_value_int(value_of(value), &result));
  return result;
}

Long to_double(Env* env, Class self, Long value) {
  double result = 0;
  check(env, self, lta_value_double(value_of(value), &result));
  Long bits = 0;
  std::memcpy(&bits, &result, sizeof bits);
  return bits;
}

ByteArray to_string(Env* env, Class self, Long value) {
  const char* data = nullptr;
  size_t size = 0;
  if (!check(env, self, lta_value_string(value_of(value), &data, &size))) {
    return nullptr;
  }
  if (size > size_t(INT32_MAX)) {
    fail(env, self, LTA_OUT_OF_MEMORY, "the text is longer than a Java array can be", "");
    return nullptr;
  }
  return bytes_of(env, data, size);
}

Long size(Env* env, Class self, Long value) {
  size_t result = 0;
  check(env, self, lta_value_size(value_of(value), &result));
  return Long(result);
}

Long item(Env* env, Class self, Long value, Long index) {
  lta_value* result = nullptr;
  check(env, self, lta_value_item(value_of(value), size_t(index), &result));
  return to_java(result);
}

Long find(Env* env, Class self, Long value, Long key) {
  lta_value* result = nullptr;
  check(env, self, lta_value_find(value_of(value), value_of(key), &result));
  return to_java(result);
}

LongArray entry(Env* env, Class self, Long value, Long index) {
  lta_value* key = nullptr;
  lta_value* result = nullptr;
  if (!check(env, self, lta_value_entry(value_of(value), size_t(index), &key, &result))) {
    return nullptr;
  }
  const Long pair[] = {to_java(key), to_java(result)};
  const LongArray handles = longs_of(env, pair, 2);
  if (handles == nullptr) {
    lta_value_free(key);
    lta_value_free(result);
  }
  return handles;
}

// ---- Tensors ----

// Keeps a buffer of Java alive while a tensor lies over it.
struct Loan {
  jni::Vm* vm;
  Object buffer;
};

// On any thread, also one that the virtual machine does not know.
void give_back(void* context) {
  Loan* loan = static_cast<Loan*>(context);
  Env* env = nullptr;
  const bool attach = loan->vm->env(&env) == jni::kDetached;
  if (attach && loan->vm->attach(&env) != jni::kOk) {
    env = nullptr; // the machine is going down, and takes the buffer with it
  }
  if (env != nullptr) {
    env->delete_global(loan->buffer);
    if (attach) {
      loan->vm->detach();
    }
  }
  std::free(loan);
}

// No strides: row-major order.
Long tensor_over(Env* env, Class self, Int dtype, LongArray shape, LongArray strides, Buffer data,
                 Int unit, Long offset, Long nbytes) {
  const Longs sizes(env, self, shape);
  if (!sizes.valid()) {
    return 0;
  }
  const Longs steps(env, self, strides);
  if (!steps.valid()) {
    return 0;
  }
  if (steps.size() != 0 && steps.size() != sizes.size()) {
    fail(env, self, LTA_INVALID_ARGUMENT, "there must be as many strides as sizes", "");
    return 0;
  }
  char* address = place_in(env, self, data, offset, nbytes, unit);
  if (address == nullptr) {
    return 0;
  }
  const size_t item = lta_dtype_size(lta_dtype(dtype));
  // C++ reads two halves of a complex number, and no type needs more than eight.
  if (item != 0 && reinterpret_cast<uintptr_t>(address) % (item < 8 ? item : 8) != 0) {
    fail(env, self, LTA_INVALID_ARGUMENT,
         "the buffer's position is not aligned for the dtype: begin at a multiple of its size", "");
    return 0;
  }
  Loan* loan = static_cast<Loan*>(std::malloc(sizeof(Loan)));
  if (loan == nullptr) {
    fail(env, self, LTA_OUT_OF_MEMORY, "out of memory", "");
    return 0;
  }
  loan->vm = env->vm();
  loan->buffer = env->new_global(data);
  if (loan->vm == nullptr || loan->buffer == nullptr) {
    fail(env, self, LTA_OUT_OF_MEMORY, "the virtual machine cannot hold the buffer", "");
    std::free(loan);
    return 0;
  }
  lta_value* tensor = lta_tensor_borrow(lta_dtype(dtype), sizes.size(), sizes.items(),
                                        steps.size() != 0 ? steps.items() : nullptr, address,
                                        size_t(nbytes), give_back, loan);
  return new_value(env, self, tensor);
}

Long tensor_quantized(Env* env, Class self, Int dtype, LongArray shape, Object data, Long offset,
                      Long nbytes, Long scale_bits, Long zero_point) {
  const Longs sizes(env, self, shape);
  if (!sizes.valid()) {
    return 0;
  }
  const char* elements = place_in(env, self, data, offset, nbytes);
  if (elements == nullptr) {
    return 0;
  }
  double scale = 0;
  std::memcpy(&scale, &scale_bits, sizeof scale);
  return new_value(env, self,
                   lta_tensor_copy_quantized(lta_dtype(dtype), sizes.size(), sizes.items(),
                                             elements, size_t(nbytes), scale, zero_point));
}

// dtype, bytes of all elements, whether quantised, then the shape, then the strides: zeros for a tensor
// that is not dense, which has none.
LongArray tensor_info(Env* env, Class self, Long value) {
  lta_tensor_info info;
  if (!check(env, self, lta_tensor_describe(value_of(value), &info))) {
    return nullptr;
  }
  const size_t count = 3 + 2 * info.ndim;
  const LongArray result = env->new_longs(Size(count));
  Long* facts = result ? static_cast<Long*>(std::malloc(count * sizeof(Long))) : nullptr;
  if (facts == nullptr) {
    fail(env, self, LTA_OUT_OF_MEMORY, "out of memory", "");
    return nullptr;
  }
  facts[0] = info.dtype;
  facts[1] = Long(info.nbytes);
  facts[2] = info.is_quantized;
  for (size_t i = 0; i < info.ndim; ++i) {
    facts[3 + i] = info.shape[i];
    facts[3 + info.ndim + i] = info.strides != nullptr ? info.strides[i] : 0;
  }
  env->write(result, Size(count), facts);
  std::free(facts);
  return result;
}

void tensor_read(Env* env, Class self, Long value, Object target, Long offset, Long nbytes) {
  char* elements = place_in(env, self, target, offset, nbytes);
  if (elements != nullptr) {
    check(env, self, lta_tensor_read(value_of(value), elements, size_t(nbytes)));
  }
}

// Whether all elements lie between the first and the last, without a gap.
bool without_gaps(const lta_tensor_info& info) {
  if (info.numel == 0 || info.data == nullptr) {
    return info.numel == 0;
  }
  size_t span = 1;
  for (size_t i = 0; i < info.ndim; ++i) {
    if (info.shape[i] != 0) {
      span += size_t(info.shape[i] - 1) * size_t(info.strides[i]);
    }
  }
  return span == info.numel;
}

// The elements as they lie in memory.
void tensor_read_stored(Env* env, Class self, Long value, Object target, Long offset, Long nbytes) {
  lta_tensor_info info;
  if (!check(env, self, lta_tensor_describe(value_of(value), &info))) {
    return;
  }
  if (!without_gaps(info) || size_t(nbytes) != info.nbytes) {
    fail(env, self, LTA_INVALID_ARGUMENT,
         "the tensor's elements do not lie one behind the other in memory", "");
    return;
  }
  char* elements = place_in(env, self, target, offset, nbytes);
  if (elements != nullptr && nbytes != 0) {
    std::memcpy(elements, info.data, size_t(nbytes));
  }
}

// The bits of the scale, and the zero point.
LongArray tensor_quantization(Env* env, Class self, Long value) {
  double scale = 0;
  int64_t zero_point = 0;
  if (!check(env, self, lta_tensor_quantization(value_of(value), &scale, &zero_point))) {
    return nullptr;
  }
  Long pair[] = {0, zero_point};
  std::memcpy(&pair[0], &scale, sizeof scale);
  return longs_of(env, pair, 2);
}

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

} // namespace

bool lta_jni_register(Env* env, Class natives) {
  // Signatures: "Type Signatures" in chapter 3 of the specification. J long, I int, Z boolean.
  const jni::NativeMethod methods_of_native[] = {
      {"version", "()[B", address_of(version)},
      {"selectionDigest", "()[B", address_of(selection_digest)},
      {"hasOperator", "([B)Z", address_of(has_operator)},
      {"threads", "()I", address_of(threads)},
      {"extend", "([B)V", address_of(extend)},
      {"setThreads", "(I)V", address_of(set_threads)},
      {"load", "([B)J", address_of(load)},
      {"loadBytes", "([B)J", address_of(load_bytes)},
      {"loadBuffer", "(Ljava/nio/ByteBuffer;JJ)J", address_of(load_buffer)},
      {"freeModule", "(J)V", address_of(free_module)},
      {"bytecodeVersion", "(J)J", address_of(bytecode_version)},
      {"methods", "(J)[[B", address_of(methods)},
      {"schema", "(J[B)J", address_of(schema)},
      {"run", "(J[B[J)J", address_of(run)},
      {"none", "()J", address_of(none)},
      {"ofBool", "(Z)J", address_of(of_bool)},
      {"ofInt", "(J)J", address_of(of_int)},
      {"ofDouble", "(J)J", address_of(of_double)},
      {"ofString", "([B)J", address_of(of_string)},
      {"tuple", "([J)J", address_of(tuple)},
      {"list", "(I[J)J", address_of(list)},
      {"dict", "(II[J[J)J", address_of(dict)},
      {"freeValue", "(J)V", address_of(free_value)},
      {"kind", "(J)I", address_of(kind)},
      {"toBool", "(J)Z", address_of(to_bool)},
      {"toInt", "(J)J", address_of(to_int)},
      {"toDouble", "(J)J", address_of(to_double)},
      {"toText", "(J)[B", address_of(to_string)},
      {"size", "(J)J", address_of(size)},
      {"item", "(JJ)J", address_of(item)},
      {"find", "(JJ)J", address_of(find)},
      {"entry", "(JJ)[J", address_of(entry)},
      {"tensorOver", "(I[J[JLjava/nio/Buffer;IJJ)J", address_of(tensor_over)},
      {"tensorQuantized", "(I[JLjava/nio/ByteBuffer;JJJJ)J", address_of(tensor_quantized)},
      {"tensorInfo", "(J)[J", address_of(tensor_info)},
      {"tensorRead", "(JLjava/nio/ByteBuffer;JJ)V", address_of(tensor_read)},
      {"tensorReadStored", "(JLjava/nio/ByteBuffer;JJ)V", address_of(tensor_read_stored)},
      {"tensorQuantization", "(J)[J", address_of(tensor_quantization)},
  };
  const Int count = Int(sizeof methods_of_native / sizeof methods_of_native[0]);
  return env->register_natives(natives, methods_of_native, count) == jni::kOk;
}
