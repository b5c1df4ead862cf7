// What a model's method takes: as text, and whether arguments fit. Part of capi.cpp.
//
// Meaning: the interpreter checks the types of arguments itself, before the method's first
// instruction, and its messages are stripped. So types are looked at here only after a call has
// failed: by the same question, hence nothing is refused that it takes, and a call that works costs
// nothing. What it does not check is asked before: an argument that is missing it takes for None,
// as a file does not tell "no default" from "None by default", and a method without a schema (of
// bytecode version 4) it runs with any number of arguments.
//
// Texts are appended to one string: a function without strings of its own needs no cleanup, which
// is half of what such code costs.
#pragma once

#include <string>

#include <ATen/core/dynamic_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/runtime/instruction.h>

#include "fitted.h"
#include "handles.h"

namespace lta {

using c10::DynamicType;
using torch::jit::mobile::Function;

// The types of one bit, by that bit (FORALL_DYNAMIC_TYPES). Arrays: pointers would be relocated.
const char kTypeNames[][9] = {"Tensor", "None", "bool",  "int",  "float",    "complex", "str",
                              "List",   "Tuple", "Dict", "object", "Optional", "Device"};
const uint32_t kTypeBits = (1u << 13) - 1;

// As TorchScript writes it; of a class or a named tuple the last part of its name. `depth` bounds
// what a file can nest.
inline void append_type(std::string& text, c10::Type& type, unsigned depth = 0) {
  const auto dynamic = DynamicType::create(type);
  if (dynamic->name()) {
    text += dynamic->name()->c_str() + dynamic->name()->rfind('.') + 1;
    return;
  }
  const DynamicType::Tag tag = dynamic->tag();
  const uint32_t bits = uint32_t(tag) & kTypeBits;
  text += tag == DynamicType::Tag::Any ? "Any"
      : tag == DynamicType::Tag::Number ? "number"
                                        : kTypeNames[bits ? 31 - __builtin_clz(bits) : 10];
  if (tag == DynamicType::Tag::Class) {
    return; // it keeps something else in the arguments' place
  }
  const auto& contained = dynamic->arguments().elems;
  for (size_t i = 0; i < contained.size(); ++i) {
    text += i == 0 ? "[" : ", ";
    depth < 16 ? append_type(text, *contained[i].ty, depth + 1) : void(text += '?');
  }
  text += contained.empty() ? "" : "]";
}

inline void append_number(std::string& text, size_t number) {
  if (number > 9) {
    append_number(text, number / 10);
  }
  text += char('0' + number % 10);
}

// None without a default of its own: only where the type takes it.
inline bool may_be_left_out(const c10::Argument& argument) {
  const auto& value = argument.default_value();
  const auto* type = argument.type()->castRaw<DynamicType>();
  return value &&
      (!value->isNone() || (type && (uint32_t(type->tag()) & c10::kDynamicNoneTypeBit) != 0));
}

// Without a schema: how many arguments, self among them, the first instruction stores; 0 if it tells
// nothing.
inline size_t stored_arguments(const Function& function) {
  const auto& instructions = function.get_code().instructions_;
  return !instructions.empty() && instructions[0].op == torch::jit::STOREN ? instructions[0].N : 0;
}

// "forward(Tensor image, float scale=...)": without self, and "?" for what nothing is known of.
// With the result: " -> Tensor" behind it.
inline void append_schema(std::string& text, const Function& function, bool with_result) {
  text += function.qualname().name();
  const bool known = function.hasSchema();
  const size_t count =
      known ? function.getSchema().arguments().size() : stored_arguments(function);
  const char* before = "(";
  for (size_t i = 1; i < count; ++i) {
    text += before;
    before = ", ";
    if (!known) {
      text += '?';
      continue;
    }
    const c10::Argument& argument = function.getSchema().arguments()[i];
    append_type(text, *argument.type());
    text += ' ';
    text += argument.name();
    if (may_be_left_out(argument)) {
      text += "=...";
    }
  }
  text += count > 1 ? ")" : count || known ? "()" : "(...)";
  if (with_result && known && function.getSchema().returns().size() == 1) {
    text += " -> ";
    append_type(text, *function.getSchema().returns()[0].type());
  }
}

// What is wrong with the arguments of a call (without self), or nothing: with their number or, where
// that is right, with their kinds.
inline void append_fault(std::string& text, const Function& function,
                         const lta_value* const* values, size_t count, bool kinds) {
  const auto* arguments = function.hasSchema() ? &function.getSchema().arguments() : nullptr;
  const size_t most = arguments ? arguments->size() : stored_arguments(function);
  const char* fault = " is missing";
  size_t i = 1;
  c10::TypePtr given;
  if (kinds) {
    for (; arguments && i <= count && i < most; ++i) {
      c10::IValue value = values[i - 1]->value;
      if (!make_fit(value, *(*arguments)[i].type())) {
        given = value.type<DynamicType>();
        break;
      }
    }
    if (!arguments || i > count || i >= most) {
      return;
    }
    fault = " is ";
  } else if (count >= most) {
    i = most;
    fault = " is too many";
  } else {
    for (i = count + 1; arguments && i < most && may_be_left_out((*arguments)[i]);) {
      ++i;
    }
    if (i >= most) {
      return;
    }
  }
  if (most == 0) {
    return; // nothing is known
  }
  append_schema(text, function, /*with_result=*/false);
  text += ": argument ";
  append_number(text, i);
  if (arguments && i < most) {
    text += ", ";
    text += (*arguments)[i].name();
    text += ',';
  }
  text += fault;
  if (kinds) {
    append_type(text, *given);
    text += ", not ";
    append_type(text, *(*arguments)[i].type());
  }
}

} // namespace lta
