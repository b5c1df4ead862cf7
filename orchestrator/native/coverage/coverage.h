// Which instructions of a model ran, and which ways its branches went.
//
// Contract: the interpreter of a tracer says of every instruction that it carries it out
// (recorded_interpreter.h); when the driver's output is written, its observer adds to it
//   "coverage":[text...]
// a text for each function of the model's file, in the file's order, a digit for each instruction:
// 0 where it never ran, else the sum of
//   1  it ran
//   2  a branch that went on with the next instruction: the condition of an `if` held, or a loop
//      began another round
//   4  a branch that jumped
// Functions that bundling of inputs added are among them; what the loader runs counts.
//
// It is beside the recorder and no part of it: what it finds decides something of what a library has
// only where an app has classes of its own, so other apps' traces stay valid when it changes
// (`tracer_digest`).
#pragma once

#include <cstddef>
#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/mobile/code.h>
#include <torch/csrc/jit/runtime/instruction.h>

namespace driver {
class Observer;
} // namespace driver

namespace coverage {

// Writes what ran; for the driver, which is no part of the development library.
driver::Observer& observer();

// Called before `code`'s instruction `pc` is carried out. Where it is a branch, what decides about
// it is on the stack, which has been asked for its size (checked_interpreter.h). The interpreter
// runs in one thread at a time here: the driver makes its calls one after another.
void runs(const torch::jit::mobile::Code& code, size_t pc, torch::jit::Instruction instruction,
          const std::vector<c10::IValue>& stack);

} // namespace coverage
