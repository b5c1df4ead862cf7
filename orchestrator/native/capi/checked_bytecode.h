// Read first by torch/csrc/jit/mobile/parse_bytecode.cpp. See model_checks.h.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/mobile/code.h>
#include <torch/csrc/jit/mobile/parse_bytecode.h>
#include <torch/csrc/jit/mobile/type_parser.h>
#include <torch/csrc/jit/mobile/upgrader_mobile.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/serialization/import_export_constants.h>
#include <torch/csrc/jit/serialization/import_export_functions.h>
#include <torch/custom_class_detail.h>

#include "model_checks.h"

namespace lta {

inline bool names_operator(torch::jit::Instruction inst, const torch::jit::mobile::Code& code) {
  expect(size_t(inst.X) < code.op_names_.size(), "an instruction names no operator");
  return true;
}

} // namespace lta

// In applyUpgrader(), before the operator's name is looked up.
#define OP OP && ::lta::names_operator(inst, code)
