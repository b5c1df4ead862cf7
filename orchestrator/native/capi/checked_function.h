// Read first by torch/csrc/jit/mobile/function.cpp. See model_checks.h; besides, kept_messages.h.
#pragma once

#include <ATen/core/dynamic_type.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/interpreter.h>
#include <torch/csrc/jit/mobile/parse_bytecode.h>
#include <torch/csrc/jit/mobile/parse_operators.h>
#include <torch/csrc/jit/mobile/prim_ops_registery.h>
#include <torch/csrc/jit/mobile/type_parser.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <cstring>

#include "kept_messages.h"
#include "left_out.h"
#include "model_checks.h"

namespace lta {

using torch::jit::mobile::Stack;

inline void expect_arguments(const Stack& stack, size_t count) {
  expect(count <= stack.size(), "an operator takes what is not there");
}

// One with a variable number of arguments takes that number off the stack first.
inline void expect_counted(const Stack& stack, int64_t least) {
  const int64_t count = !stack.empty() && stack.back().isInt() ? stack.back().toInt() : -1;
  expect_arguments(stack, count < least ? SIZE_MAX : size_t(count) + 1);
}

inline void expect_arguments(const Stack& stack, const c10::FunctionSchema& schema) {
  schema.is_vararg() ? expect_counted(stack, 0)
                     : expect_arguments(stack, schema.arguments().size());
}

// The interpreter's own operators have no schema. This is what they take:
// torch/csrc/jit/mobile/promoted_prim_ops.cpp.
inline size_t arguments_of_own(const std::string& name) {
  for (const char* two : {"prim::TupleIndex", "prim::RaiseException", "aten::__is__",
                          "aten::__isnot__", "aten::__getitem__.Dict_str"}) {
    if (name == two) {
      return 2;
    }
  }
  return name == "prim::Uninitialized" ? 0 : 1;
}

} // namespace lta

namespace torch {
namespace jit {
namespace mobile {

// One that nothing registers, and that no input of this library's own models reaches, or that has to
// come first: left_out.h.
inline bool is_only_named(const std::string& name, const c10::OperatorName& operator_name) {
  return (lta::is_left_out(name) || lta::lacks_operators()) && !findOperatorFor(operator_name) &&
      !c10::Dispatcher::singleton().findSchema(operator_name).has_value();
}

inline std::function<void(Stack&)> checked_own_operator(const std::string& name) {
  if (!hasPrimOpsFn(name)) {
    return [name](Stack&) { lta::left_out(name); };
  }
  const auto& own = getPrimOpsFn(name); // it stays where it is
  const size_t count = lta::arguments_of_own(name);
  const bool counted = name == "aten::format";
  return [&own, count, counted](Stack& stack) {
    counted ? lta::expect_counted(stack, 1) : lta::expect_arguments(stack, count);
    own(stack);
  };
}

} // namespace mobile
} // namespace jit
} // namespace torch

// In makeOperatorFunction(), where an operator is called.
#define getOperation() \
  getOperation((::lta::expect_arguments(stack, jit_op->schema()), nullptr))
#define callBoxed(stack) callBoxed((::lta::expect_arguments(*stack, op->schema()), stack))
// There, before an output argument is taken off the stack.
#define is_out() is_out() && (::lta::expect_arguments(stack, 1), true)
// There, for an operator of the interpreter's own, or one that is left out.
#define hasPrimOpsFn(name) hasPrimOpsFn(name) || is_only_named(name, opname)
#define getPrimOpsFn(name) checked_own_operator(name)
