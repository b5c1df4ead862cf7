// Read first by torch/csrc/jit/mobile/import.cpp. See model_checks.h.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/qualified_name.h>
#include <c10/util/Exception.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/irange.h>
#include <caffe2/serialize/in_memory_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <caffe2/serialize/versions.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/mobile/file_format.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/interpreter.h>
#include <torch/csrc/jit/mobile/observer.h>
#include <torch/csrc/jit/mobile/parse_bytecode.h>
#include <torch/csrc/jit/mobile/parse_operators.h>
#include <torch/csrc/jit/mobile/type_parser.h>
#include <torch/csrc/jit/mobile/upgrader_mobile.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/serialization/import_export_constants.h>
#include <torch/csrc/jit/serialization/import_export_functions.h>
#include <torch/csrc/jit/serialization/import_read.h>
#include <torch/custom_class.h>

#include "checked_types.h"
#include "model_checks.h"

namespace lta {

inline bool is_row(const c10::IValue& value, size_t least) {
  return value.isTuple() && value.toTupleRef().elements().size() >= least;
}

// A row of debug information: none, or a name and ((name, (numbers,)),).
inline bool is_debug_row(const c10::IValue& value) {
  if (!is_row(value, 1)) {
    return is_row(value, 0);
  }
  if (!is_row(value, 2) || !is_row(value.toTupleRef().elements()[1], 1)) {
    return false;
  }
  const c10::IValue& table = value.toTupleRef().elements()[1];
  const c10::IValue& field = table.toTupleRef().elements()[0];
  return is_row(field, 2) && is_row(field.toTupleRef().elements()[1], 1);
}

// A method is (name, code), since bytecode version 5 (name, code, schema).
template <class Rows>
bool expect_methods(const c10::ivalue::TupleElements& methods, const Rows& debug, int64_t version) {
  for (size_t row = methods[0].isInt() ? 1 : 0; row < methods.size(); ++row) {
    expect(is_row(methods[row], version > 4 ? 3 : 2), "a method is not whole");
    expect(!debug || row >= debug->size() || is_debug_row((*debug)[row]),
           "a method's debug information is not whole");
  }
  return true;
}

} // namespace lta

// In parseMethods(), where the version is known; its other use, in a message, is not compiled.
#define kMaxSupportedBytecodeVersion \
  kMaxSupportedBytecodeVersion && ::lta::expect_methods(vals, debug_handles, bytecode_version_)
