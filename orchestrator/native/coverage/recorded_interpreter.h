// Read first by torch/csrc/jit/mobile/interpreter.cpp in a tracer: what a library's reads, and besides
// it tells coverage.h of every instruction.
#pragma once

#include "../capi/checked_interpreter.h"
#include "coverage.h"

// In InterpreterState::run(), before an instruction is carried out.
#undef isRecordFunctionEnabled
#define isRecordFunctionEnabled()                                                \
  (::lta::expect_operands(inst, code, stack, registers_.size(), frames_.size()), \
   ::coverage::runs(code, pc, inst, stack), true)
