// The registry of c10's flags is given back when the library is unloaded.
//
// Meaning: each C10_DEFINE_bool registers a name for a command line that no library reads, in a registry
// on the heap: 4 KB that stayed at each dlclose. c10/util/flags_use_no_gflags.cpp defines it with this.
#pragma once

#include <c10/util/Flags.h>

#undef C10_DEFINE_REGISTRY
#define C10_DEFINE_REGISTRY(Name, Object, Argument)                                             \
  C10_EXPORT ::c10::Registry<std::string, std::unique_ptr<Object>, Argument>* Name() {         \
    static ::c10::Registry<std::string, std::unique_ptr<Object>, Argument> registry;           \
    return &registry;                                                                         \
  }
