// How add-ons get into a library that takes them.
#pragma once

#include <string>

#include <pthread.h>

namespace lta {

// in_use  held for reading by what calls operators or looks them up, for writing while an add-on
//         registers its own: the dispatcher's tables are read without a lock (c10::OperatorEntry)
// extend  loads an add-on; what is wrong with it, or ""
struct Extension {
  pthread_rwlock_t in_use;
  std::string (*extend)(const char* path);
};

// Set when a library is loaded that has capi/extend.cpp; else null. Defined in model_checks.cpp.
extern Extension* extension;

} // namespace lta
