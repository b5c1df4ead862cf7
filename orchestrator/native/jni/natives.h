// The native methods of the Java class `Native` (native/java/libtorch/app/Native.java).
#pragma once

#include "jni_table.h"

// Binds them to the class. False where an exception is pending instead.
bool lta_jni_register(jni::Env* env, jni::Class natives);
