// The Java Native Interface, as far as natives.cpp and on_load.cpp use it, without a JDK or an NDK.
//
// A JNIEnv points to a table of functions whose order the specification fixes for all virtual
// machines ("JNI Functions", chapter 4: each function has an index; chapter 5 for JavaVM). Here the
// functions are reached by their index. The names of the constants are the specification's; a test
// compares each index with a JDK's own jni.h.
//
// References, arrays and numbers have the sizes that jni.h gives them. Functions with variable
// arguments are left out: their ...A forms do the same.
#pragma once

#include <cstdint>

namespace jni {

// What references refer to; the classes only keep kinds of references apart.
class ObjectBody {};
class ClassBody : public ObjectBody {};
class ArrayBody : public ObjectBody {};
class ByteArrayBody : public ArrayBody {};
class LongArrayBody : public ArrayBody {};
class ObjectArrayBody : public ArrayBody {};

using Object = ObjectBody*;
using Buffer = Object; // a java.nio.Buffer of any kind, where a signature says so
using Class = ClassBody*;
using Array = ArrayBody*;
using ByteArray = ByteArrayBody*;
using LongArray = LongArrayBody*;
using ObjectArray = ObjectArrayBody*;
using MethodId = struct MethodBody*;

using Boolean = uint8_t;
using Byte = int8_t;
using Int = int32_t;
using Long = int64_t;
using Size = int32_t;

union Argument {
  Boolean z;
  Byte b;
  uint16_t c;
  int16_t s;
  Int i;
  Long j;
  float f;
  double d;
  Object l;
};

// JNINativeMethod.
struct NativeMethod {
  const char* name;
  const char* signature;
  void* function;
};

constexpr Int kVersion = 0x00010006; // JNI_VERSION_1_6: the newest that Android has
constexpr Int kOk = 0;               // JNI_OK
constexpr Int kError = -1;           // JNI_ERR
constexpr Int kDetached = -2;        // JNI_EDETACHED
constexpr Int kAbort = 2;            // JNI_ABORT: release without copying back

// Indices into the table of a JNIEnv.
enum EnvIndex : int {
  FindClass = 6,
  ExceptionCheck = 228,
  NewGlobalRef = 21,
  DeleteGlobalRef = 22,
  DeleteLocalRef = 23,
  GetStaticMethodID = 113,
  CallStaticVoidMethodA = 143,
  GetArrayLength = 171,
  NewObjectArray = 172,
  SetObjectArrayElement = 174,
  NewByteArray = 176,
  NewLongArray = 180,
  GetByteArrayElements = 184,
  ReleaseByteArrayElements = 192,
  GetByteArrayRegion = 200,
  GetLongArrayRegion = 204,
  SetByteArrayRegion = 208,
  SetLongArrayRegion = 212,
  RegisterNatives = 215,
  GetJavaVM = 219,
  GetDirectBufferAddress = 230,
  GetDirectBufferCapacity = 231,
};

// Indices into the table of a JavaVM.
enum VmIndex : int {
  AttachCurrentThread = 4,
  DetachCurrentThread = 5,
  GetEnv = 6,
};

// A table, and the call through it: `this` is the JNIEnv* or JavaVM* of C.
class Table {
 protected:
  template <class Result, class... Parameters>
  Result at(int index, Parameters... parameters) {
    using Function = Result (*)(Table*, Parameters...);
    return reinterpret_cast<Function>(functions_[index])(this, parameters...);
  }

 private:
  void* const* functions_;
};

class Vm;

// A thread's JNIEnv. Unless said otherwise, no exception may be pending when one of these is
// called, and NULL or an error means that one is pending now.
class Env : public Table {
 public:
  Class find_class(const char* name) { return at<Class>(FindClass, name); }

  // May be called while an exception is pending, as may the three that delete or release.
  bool exception_pending() { return at<Boolean>(ExceptionCheck) != 0; }

  Object new_global(Object object) { return at<Object>(NewGlobalRef, object); }
  void delete_global(Object object) { at<void>(DeleteGlobalRef, object); }
  void delete_local(Object object) { at<void>(DeleteLocalRef, object); }

  MethodId static_method(Class owner, const char* name, const char* signature) {
    return at<MethodId>(GetStaticMethodID, owner, name, signature);
  }
  void call_static_void(Class owner, MethodId method, const Argument* arguments) {
    at<void>(CallStaticVoidMethodA, owner, method, arguments);
  }

  Size length(Array array) { return at<Size>(GetArrayLength, array); }

  ObjectArray new_objects(Size size, Class type) {
    return at<ObjectArray>(NewObjectArray, size, type, Object(nullptr));
  }
  void set_object(ObjectArray array, Size index, Object value) {
    at<void>(SetObjectArrayElement, array, index, value);
  }

  ByteArray new_bytes(Size size) { return at<ByteArray>(NewByteArray, size); }
  void read(ByteArray from, Size size, Byte* to) {
    at<void>(GetByteArrayRegion, from, Size(0), size, to);
  }
  void write(ByteArray to, Size size, const Byte* from) {
    at<void>(SetByteArrayRegion, to, Size(0), size, from);
  }
  // The array's own memory where the machine can give it, else a copy.
  Byte* hold(ByteArray array) {
    return at<Byte*>(GetByteArrayElements, array, static_cast<Boolean*>(nullptr));
  }
  void let_go(ByteArray array, Byte* elements) {
    at<void>(ReleaseByteArrayElements, array, elements, kAbort);
  }

  LongArray new_longs(Size size) { return at<LongArray>(NewLongArray, size); }
  void read(LongArray from, Size size, Long* to) {
    at<void>(GetLongArrayRegion, from, Size(0), size, to);
  }
  void write(LongArray to, Size size, const Long* from) {
    at<void>(SetLongArrayRegion, to, Size(0), size, from);
  }

  // 0, or negative with an exception pending.
  Int register_natives(Class owner, const NativeMethod* methods, Int count) {
    return at<Int>(RegisterNatives, owner, methods, count);
  }
  Vm* vm() {
    Vm* found = nullptr;
    return at<Int>(GetJavaVM, &found) == kOk ? found : nullptr;
  }
  // The address of the buffer's index 0; NULL, without an exception, for one that is not direct.
  char* direct_address(Object buffer) {
    return static_cast<char*>(at<void*>(GetDirectBufferAddress, buffer));
  }
  // How many bytes there are, for a buffer of bytes; -1, likewise, for one that is not direct.
  Long direct_capacity(Object buffer) { return at<Long>(GetDirectBufferCapacity, buffer); }
};

// The JavaVM: the same for all threads.
class Vm : public Table {
 public:
  // kOk, or kDetached where the virtual machine does not know this thread.
  Int env(Env** found) {
    void* pointer = nullptr;
    const Int status = at<Int>(GetEnv, &pointer, kVersion);
    *found = static_cast<Env*>(pointer);
    return status;
  }
  Int attach(Env** found) {
    void* pointer = nullptr;
    const Int status = at<Int>(AttachCurrentThread, &pointer, static_cast<void*>(nullptr));
    *found = static_cast<Env*>(pointer);
    return status;
  }
  void detach() { at<Int>(DetachCurrentThread); }
};

} // namespace jni
