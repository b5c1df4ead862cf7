// Read first by torch/csrc/jit/mobile/interpreter.cpp. See model_checks.h.
#pragma once

#include <ATen/core/class_type.h>
#include <ATen/core/dynamic_type.h>
#include <ATen/core/function.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/operator_name.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>
#include <torch/csrc/jit/backends/backend_exception.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/interpreter.h>
#include <torch/csrc/jit/mobile/observer.h>
#include <torch/csrc/jit/mobile/promoted_prim_ops.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/csrc/jit/runtime/vararg_functions.h>

#include "model_checks.h"

namespace lta {

// How many values an instruction takes off the stack, or looks at there, whatever its operands are.
inline size_t taken(torch::jit::Instruction inst) {
  using namespace torch::jit;
  switch (inst.op) {
    case OPN:
    case STOREN:
    case INTERFACE_CALL:
    case LIST_CONSTRUCT:
    case DICT_CONSTRUCT:
    case NAMED_TUPLE_CONSTRUCT:
      return inst.N;
    case LOOP:
      return size_t(inst.N) + 1;
    case TUPLE_CONSTRUCT:
    case FORMAT:
      return size_t(inst.X);
    case STORE:
    case DROP:
    case GET_ATTR:
    case JF:
    case LIST_UNPACK:
    case TUPLE_SLICE:
    case DEVICE:
    case DTYPE:
    case DIM:
    case __NOT__:
    case NUM_TO_TENSOR:
    case IS_CUDA:
    case ISINSTANCE:
      return 1;
    case SET_ATTR:
    case TUPLE_INDEX:
    case RAISE_EXCEPTION:
    case __IS__:
    case __ISNOT__:
    case DICT_INDEX:
    case WARN:
      return 2;
    case TO_LIST:
      return 3;
    default:
      return 0;
  }
}

// Whether a value is an object of a custom class, whose one slot holds memory that its methods take
// for what they put there.
inline bool is_custom(const c10::IValue& value) {
  static const c10::QualifiedName classes("__torch__.torch.classes");
  return value.isObject() && value.toObjectRef().type()->name() &&
      classes.isPrefixOf(*value.toObjectRef().type()->name());
}

// A method of C++ takes its arguments off the stack without asking how many there are.
inline void expect_method(torch::jit::Instruction inst, const torch::jit::mobile::Code& code,
                          const std::vector<c10::IValue>& stack) {
  const c10::IValue& self = stack[stack.size() - inst.N];
  const c10::IValue& name = code.constants_[size_t(inst.X)];
  expect(self.isObject() && name.isString(), "an instruction calls what has no methods");
  const auto* method = self.toObjectRef().type()->findMethod(name.toStringRef());
  expect(method != nullptr, "an instruction calls a method that its object does not have");
  expect(method->getSchema().arguments().size() == inst.N,
         "an instruction calls a method with more or fewer arguments than it takes");
}

// Whether an instruction's operands are what it refers to. X is also an index, and then not negative.
inline bool refers(torch::jit::Instruction inst, const torch::jit::mobile::Code& code,
                   const std::vector<c10::IValue>& stack, size_t registers) {
  using namespace torch::jit;
  const size_t index = size_t(inst.X);
  switch (inst.op) {
    case OP:
    case OPN:
      return index < code.operators_.size();
    case LOADC:
      return index < code.constants_.size();
    case INTERFACE_CALL:
      return inst.N > 0 && index < code.constants_.size();
    // Registers are counted from the last one, from 1.
    case LOAD:
    case MOVE:
    case STORE:
    case DROPR:
      return index - 1 < registers;
    case STOREN:
      return inst.N == 0 || (index - 1 < registers && inst.N <= registers - index + 1);
    case GET_ATTR: // what a custom class has in its slot is not a model's to take
      return stack.back().isObject() && index < stack.back().toObjectRef().slots().size() &&
          !stack.back().toObjectRef().slots()[index].isCapsule();
    case SET_ATTR: // it makes as many attributes as it needs
      return index < 1 << 16 && !is_custom(stack[stack.size() - 2]);
    case LOOP:
      return inst.N >= 2;
    case FORMAT:
      return index > 0;
    case TUPLE_SLICE:
      return inst.X >= 0;
    case DICT_CONSTRUCT:
      return inst.N % 2 == 0;
    case ISINSTANCE:
      return index < code.types_.size() && inst.N <= code.types_.size() - index;
    default:
      return true;
  }
}

inline void expect_operands(torch::jit::Instruction inst, const torch::jit::mobile::Code& code,
                            const std::vector<c10::IValue>& stack, size_t registers,
                            size_t frames) {
  expect(taken(inst) <= stack.size() && refers(inst, code, stack, registers) && frames < 1000,
         "an instruction takes what is not there");
  if (inst.op == torch::jit::INTERFACE_CALL) {
    expect_method(inst, code, stack);
  }
}

// Carries out instructions from a frame's next one on, up to one that is not among these or whose
// operands are not there, and returns that one: upstream's switch goes on with it, after the check.
// Of these each asks for its own operands alone: asking of every instruction what it may need took
// as long as carrying it out.
inline torch::jit::Instruction run_ahead(torch::jit::mobile::Frame& frame,
                                         const torch::jit::mobile::Code& code,
                                         std::vector<c10::IValue>& stack,
                                         std::vector<c10::IValue>& registers) {
  using namespace torch::jit;
  for (;;) {
    const Instruction inst = frame.getInstruction();
    const auto index = size_t(inst.X);
    switch (inst.op) {
      case OP:
        if (index >= code.operators_.size()) {
          return inst;
        }
        code.operators_[index](stack);
        frame.step();
        break;
      case LOAD:
        if (index - 1 >= registers.size()) {
          return inst;
        }
        stack.push_back(registers[registers.size() - index]);
        frame.step();
        break;
      case MOVE:
        if (index - 1 >= registers.size()) {
          return inst;
        }
        stack.push_back(std::move(registers[registers.size() - index]));
        frame.step();
        break;
      case STORE:
        if (index - 1 >= registers.size() || stack.empty()) {
          return inst;
        }
        registers[registers.size() - index] = std::move(stack.back());
        stack.pop_back();
        frame.step();
        break;
      case DROPR:
        if (index - 1 >= registers.size()) {
          return inst;
        }
        registers[registers.size() - index] = c10::IValue();
        frame.step();
        break;
      case DROP:
        if (stack.empty()) {
          return inst;
        }
        stack.pop_back();
        frame.step();
        break;
      case LOADC:
        if (index >= code.constants_.size()) {
          return inst;
        }
        stack.push_back(code.constants_[index]);
        frame.step();
        break;
      case GET_ATTR: {
        if (stack.empty() || !stack.back().isObject()) {
          return inst;
        }
        const std::vector<c10::IValue>& slots = stack.back().toObjectRef().slots();
        if (index >= slots.size() || slots[index].isCapsule()) {
          return inst;
        }
        c10::IValue value = slots[index]; // what it is a slot of may end with the value below
        stack.back() = std::move(value);
        frame.step();
        break;
      }
      case JF:
        if (stack.empty() || !stack.back().isBool()) {
          return inst;
        }
        frame.jump(stack.back().toBool() ? 1 : index);
        stack.pop_back();
        break;
      case JMP:
        frame.jump(index);
        break;
      default:
        return inst;
    }
  }
}

} // namespace lta

namespace at {
constexpr bool observes() { return false; }
} // namespace at

// In InterpreterState::run(), before an instruction is carried out: those that can go ahead, then the
// check, and that nobody observes operators. The dispatcher is compiled without
// (PYTORCH_DISABLE_PER_OP_PROFILING), a tracer hooks others, and asking takes a lock at each operator.
#define isRecordFunctionEnabled()                                                       \
  (inst = ::lta::run_ahead(frame, code, stack, registers_),                             \
   ::lta::expect_operands(inst, code, stack, registers_.size(), frames_.size()), true)
#define hasGlobalCallbacks() observes()
#undef RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS
#define RECORD_EDGE_SCOPE_WITH_DEBUG_HANDLE_AND_INPUTS(name, handle, inputs) \
  static_cast<void>(handle)
// In enterFrame() and leaveFrame().
#define resize(size) resize(::lta::modest(size))
