// Keeps one more of PyTorch's messages alive in release builds: an operator that has no kernel for
// what it was called with (a quantised tensor, one on another device).
//
// Meaning: STRIP_ERROR_MESSAGES leaves of it `false"TYPE" CHECK FAILED`. Its text also lists every
// dispatch key with its kernel, which is code that a library can do without; what tells what to
// select is the operator and the key. Only ATen/core/dispatch/OperatorEntry.cpp is compiled with
// `-include` of this file, and PyTorch's files stay as they are.
//
// Trap: the macro names what is in scope where that unit uses it, OperatorEntry::reportError; headers
// that use it are read before.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#ifdef STRIP_ERROR_MESSAGES

#undef TORCH_CHECK_NOT_IMPLEMENTED
#define TORCH_CHECK_NOT_IMPLEMENTED(cond, ...)                                           \
  if (C10_UNLIKELY_OR_CONST(!(cond))) {                                                  \
    C10_THROW_ERROR(                                                                     \
        NotImplementedError,                                                             \
        ::c10::str(                                                                      \
            "Could not run '",                                                           \
            name_,                                                                       \
            "' with arguments from the '",                                               \
            toString(dispatchKey),                                                       \
            "' backend: this library has no such kernel"));                              \
  }

#endif
