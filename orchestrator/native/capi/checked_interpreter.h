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

// What a value's attributes lead to, `model.layers.0.weight`: as far as the instructions from `at` on
// are GET_ATTRs that may be carried out. Objects on the way are not counted.
inline const c10::IValue& follow(const std::vector<torch::jit::Instruction>& instructions, size_t* at,
                                 const c10::IValue& from) {
  const c10::IValue* value = &from;
  for (; *at < instructions.size(); ++*at) {
    const torch::jit::Instruction inst = instructions[*at];
    if (inst.op != torch::jit::GET_ATTR || !value->isObject()) {
      break;
    }
    const std::vector<c10::IValue>& slots = value->toObjectRef().slots();
    if (size_t(inst.X) >= slots.size() || slots[size_t(inst.X)].isCapsule()) {
      break;
    }
    value = &slots[size_t(inst.X)];
  }
  return *value;
}

// Carries out instructions from a frame's next one on, up to one that is not among these or whose
// operands are not there, and returns that one: upstream's switch goes on with it, after the check.
// Of these each asks for its own operands alone: asking of every instruction what it may need took
// as long as carrying it out. The frame is told where it is when an operator may ask.
inline torch::jit::Instruction run_ahead(torch::jit::mobile::Frame& frame,
                                         const torch::jit::mobile::Code& code,
                                         std::vector<c10::IValue>& stack,
                                         std::vector<c10::IValue>& registers) {
  using namespace torch::jit;
  const std::vector<Instruction>& instructions = code.instructions_;
  c10::IValue* const end = registers.data() + registers.size();
  const size_t register_count = registers.size();
  size_t at = frame.getPC();
  for (; at < instructions.size(); ++at) {
    const Instruction inst = instructions[at];
    const auto index = size_t(inst.X);
    switch (inst.op) {
      case OP:
        if (index >= code.operators_.size()) {
          goto other;
        }
        frame.jump(at - frame.getPC());
        code.operators_[index](stack);
        continue;
      case LOAD: {
        if (index - 1 >= register_count) {
          goto other;
        }
        size_t next = at + 1;
        stack.push_back(follow(instructions, &next, *(end - index)));
        at = next - 1;
        continue;
      }
      case MOVE:
        if (index - 1 >= register_count) {
          goto other;
        }
        stack.push_back(std::move(*(end - index)));
        continue;
      case STORE:
        if (index - 1 >= register_count || stack.empty()) {
          goto other;
        }
        *(end - index) = std::move(stack.back());
        stack.pop_back();
        continue;
      case DROPR:
        if (index - 1 >= register_count) {
          goto other;
        }
        *(end - index) = c10::IValue();
        continue;
      case DROP:
        if (stack.empty()) {
          goto other;
        }
        stack.pop_back();
        continue;
      case LOADC:
        if (index >= code.constants_.size()) {
          goto other;
        }
        stack.push_back(code.constants_[index]);
        continue;
      case GET_ATTR: {
        if (stack.empty()) {
          goto other;
        }
        size_t next = at;
        const c10::IValue& found = follow(instructions, &next, stack.back());
        if (next == at) {
          goto other;
        }
        c10::IValue value = found; // what it is a slot of may end with the value below
        stack.back() = std::move(value);
        at = next - 1;
        continue;
      }
      case TUPLE_CONSTRUCT:
        if (index > stack.size()) {
          goto other;
        }
        tupleConstruct(stack, index);
        continue;
      case JF: {
        if (stack.empty() || !stack.back().isBool()) {
          goto other;
        }
        const bool holds = stack.back().toBool();
        stack.pop_back();
        at += holds ? 0 : index - 1;
        continue;
      }
      case JMP:
        at += index - 1;
        continue;
      default:
        goto other;
    }
  }
other:
  frame.jump(at - frame.getPC());
  return frame.getInstruction(); // raises where the code ends
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
