// What the virtual machine calls when System.loadLibrary() has loaded the library.
//
// LTA_JNI_PACKAGE is the Java package of the app, such as "libtorch/camera": the only thing here
// that differs between apps.
#include "natives.h"

#ifndef LTA_JNI_PACKAGE
#error "compile with -DLTA_JNI_PACKAGE=\"libtorch/<app>\""
#endif

extern "C" __attribute__((visibility("default"))) jni::Int JNI_OnLoad(jni::Vm* vm, void*);

jni::Int JNI_OnLoad(jni::Vm* vm, void*) {
  jni::Env* env = nullptr;
  if (vm->env(&env) != jni::kOk) {
    return jni::kError;
  }
  // Here, and nowhere else, classes are found as the class that loads the library finds them.
  const jni::Class natives = env->find_class(LTA_JNI_PACKAGE "/Native");
  if (natives == nullptr) {
    return jni::kError;
  }
  const bool bound = lta_jni_register(env, natives);
  env->delete_local(natives);
  return bound ? jni::kVersion : jni::kError;
}
