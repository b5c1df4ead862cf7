// What a model's method takes: as text, and whether arguments fit. Part of capi.cpp.
//
// Meaning: the interpreter checks the types of arguments itself, before the method's first
// instruction, and its messages are stripped. So types are looked at here only after a call has
// failed: by the same question, hence nothing is refused that it takes, and a call that works costs
// nothing. What it does not check is asked before: an argument that is missing it takes for None,
// as a file does not tell "no default" from "None by default", and a method without a schema (of
// bytecode version 4) it runs with any number of arguments.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>

#include <ATen/core/dynamic_type.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/runtime/instruction.h>

#include "handles.h"

namespace lta {

using torch::jit::mobile::Function;

// Arrays, not pointers: a table of pointers is relocated when the library is loaded.
struct TypeName {
  c10::DynamicType::Tag tag;
  char name[12];
};
const TypeName kTypeNames[] = {
    {c10::DynamicType::Tag::Tensor, "Tensor"},     {c10::DynamicType::Tag::None, "None"},
    {c10::DynamicType::Tag::Bool, "bool"},         {c10::DynamicType::Tag::Int, "int"},
    {c10::DynamicType::Tag::Float, "float"},       {c10::DynamicType::Tag::Complex, "complex"},
    {c10::DynamicType::Tag::Number, "number"},     {c10::DynamicType::Tag::String, "str"},
    {c10::DynamicType::Tag::List, "List"},         {c10::DynamicType::Tag::Tuple, "Tuple"},
    {c10::DynamicType::Tag::Dict, "Dict"},         {c10::DynamicType::Tag::Optional, "Optional"},
    {c10::DynamicType::Tag::AnyList, "list"},      {c10::DynamicType::Tag::AnyTuple, "tuple"},
    {c10::DynamicType::Tag::DeviceObj, "Device"},  {c10::DynamicType::Tag::Any, "Any"},
};

// As TorchScript writes it; of a class or a named tuple the last part of its name. `depth` bounds
// what a file can nest.
inline void append_type(std::string& text, c10::Type& type, unsigned depth = 0) {
  const auto dynamic = c10::DynamicType::create(type);
  if (dynamic->name()) {
    const std::string& name = *dynamic->name();
    text.append(name, name.rfind('.') + 1, std::string::npos);
    return;
  }
  const char* found = "object";
  for (const TypeName& row : kTypeNames) {
    if (row.tag == dynamic->tag()) {
      found = row.name;
    }
  }
  text += found;
  if (dynamic->tag() == c10::DynamicType::Tag::Class || dynamic->arguments().elems.empty()) {
    return; // a class keeps something else in the arguments' place
  }
  const char* before = "[";
  for (const auto& argument : dynamic->arguments().elems) {
    text += before;
    depth < 16 ? append_type(text, *argument.ty, depth + 1) : void(text += "...");
    before = ", ";
  }
  text += ']';
}

// A default, or a key of a dict, as Python writes it.
inline void append_literal(std::string& text, const c10::IValue& value) {
  if (value.isNone()) {
    text += "None";
  } else if (value.isBool()) {
    text += value.toBool() ? "True" : "False";
  } else if (value.isInt()) {
    text += std::to_string(value.toInt());
  } else if (value.isDouble()) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", value.toDouble());
    for (char& letter : number) {
      letter = letter == ',' ? '.' : letter; // the locale's
    }
    text += number;
  } else if (value.isString()) {
    text += '"';
    text += value.toStringRef();
    text += '"';
  } else {
    text += "...";
  }
}

// None without a default of its own: only where the type takes it.
inline bool may_be_left_out(const c10::Argument& argument) {
  const auto& value = argument.default_value();
  return value &&
      (!value->isNone() || (uint32_t(c10::DynamicType::create(*argument.type())->tag()) &
                            c10::kDynamicNoneTypeBit) != 0);
}

// Without a schema: how many arguments, self among them, the first instruction stores; 0 if it tells
// nothing.
inline size_t stored_arguments(const Function& function) {
  const auto& instructions = function.get_code().instructions_;
  return !instructions.empty() && instructions[0].op == torch::jit::STOREN ? instructions[0].N : 0;
}

// "forward(Tensor image, float scale=0.5)": without self, and "?" for what nothing is known of.
inline std::string called(const Function& function) {
  std::string text = function.name();
  text += '(';
  const char* before = "";
  if (function.hasSchema()) {
    const auto& arguments = function.getSchema().arguments();
    for (size_t i = 1; i < arguments.size(); ++i) {
      text += before;
      append_type(text, *arguments[i].type());
      text += ' ';
      text += arguments[i].name();
      if (may_be_left_out(arguments[i])) {
        text += '=';
        append_literal(text, *arguments[i].default_value());
      }
      before = ", ";
    }
  } else {
    const size_t count = stored_arguments(function);
    text += count == 0 ? "..." : "";
    for (size_t i = 1; i < count; ++i) {
      text += before;
      text += '?';
      before = ", ";
    }
  }
  text += ')';
  return text;
}

// The same and what it returns.
inline std::string schema_text(const Function& function) {
  std::string text = called(function);
  if (function.hasSchema() && function.getSchema().returns().size() == 1) {
    text += " -> ";
    append_type(text, *function.getSchema().returns()[0].type());
  }
  return text;
}

inline std::string at_argument(const Function& function, size_t index) {
  std::string text = called(function);
  text += ": argument ";
  text += std::to_string(index);
  text += ", ";
  text += function.getSchema().arguments()[index].name();
  return text;
}

// What is wrong with a number of arguments (without self), or "".
inline std::string wrong_count(const Function& function, size_t count) {
  size_t wanted = 0;
  if (function.hasSchema()) {
    const auto& arguments = function.getSchema().arguments();
    for (size_t i = count + 1; i < arguments.size(); ++i) {
      if (!may_be_left_out(arguments[i])) {
        return at_argument(function, i) + ", is missing";
      }
    }
    wanted = arguments.size() > count ? count + 1 : arguments.size();
  } else {
    wanted = stored_arguments(function);
  }
  if (wanted == 0 || wanted == count + 1) {
    return std::string();
  }
  std::string text = called(function);
  text += " takes ";
  text += std::to_string(wanted - 1);
  text += wanted == 2 ? " argument, not " : " arguments, not ";
  text += std::to_string(count);
  return text;
}

// What is wrong with the kind of an argument, or "".
inline std::string wrong_kind(const Function& function, const lta_value* const* values,
                              size_t count) {
  for (size_t i = 0; function.hasSchema() && i < count; ++i) {
    const auto& wanted = function.getSchema().arguments()[i + 1].type();
    const auto given = values[i]->value.type<c10::DynamicType>();
    if (!given->isSubtypeOf(*wanted)) {
      std::string text = at_argument(function, i + 1);
      text += ", is ";
      append_type(text, *given);
      text += ", not ";
      append_type(text, *wanted);
      return text;
    }
  }
  return std::string();
}

} // namespace lta
