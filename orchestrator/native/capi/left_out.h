// Operators that a model names only in calls that no input can reach, and that this library therefore
// leaves out: such a model loads, as if it had them.
//
// Meaning: the build proves it from the files of its models (models/settled.py). Another file may name
// the same operators and reach a call: that one fails there, by name. An operator that an add-on has
// registered meanwhile is called as any other.
#pragma once

#include <string>

namespace lta {

// name: with its overload, `aten::relu_`. Defined in model_checks.cpp, which every variant links.
bool is_left_out(const std::string& name);

// Whether operators come to this library while models are tried: a development library. A model loads
// there whatever it names.
bool lacks_operators();

// Raises c10::Error: the name, and that no input should have reached the call.
[[noreturn]] void left_out(const std::string& name);

} // namespace lta
