// The upgraders of old models' operators, for models that have none of these operators.
//
// Meaning: torch/csrc/jit/mobile/upgrader_mobile.cpp builds eleven functions of bytecode, 17 KB, for
// every model that is loaded; they take the place of an operator that is in the model and was another
// one when the model was made (`aten::div` up to version 3). The unit is compiled with `-include` of
// this file where an app's models have none of them: the list of functions is empty.
//
// The map of the versions stays as it is, so that a model that would need an upgrader after all is
// refused (`applyUpgrader`: "upgrader index ..."), and never runs with the wrong operator.
//
// Trap: what follows in the unit is PyTorch's own list. It is given another name; nothing refers to
// it, so that the linker drops it.
#pragma once

#include <vector>

#include <torch/csrc/jit/mobile/upgrader_mobile.h>

namespace torch {
namespace jit {

const std::vector<ByteCodeFunctionWithOperator>& getUpgraderBytecodeList() {
  static const std::vector<ByteCodeFunctionWithOperator> none;
  return none;
}

} // namespace jit
} // namespace torch

#define getUpgraderBytecodeList unusedUpgraders
