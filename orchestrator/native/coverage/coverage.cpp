// See coverage.h.
#include "coverage.h"

#include <cstdint>
#include <string>
#include <unordered_map>

#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/module.h>

#include "driver.h"
#include "handles.h"

namespace coverage {

namespace {

namespace mobile = torch::jit::mobile;

constexpr char kRan = 1;
constexpr char kWentOn = 2;
constexpr char kJumped = 4;

// A function owns its code, and the module its functions: a code stays where it is.
std::unordered_map<const mobile::Code*, std::string> ran;
std::vector<const mobile::Code*> functions;

// Which way a branch goes, as InterpreterState::run() decides; 0 for no branch, or where the stack
// has what it will refuse.
char way_of(torch::jit::Instruction instruction, const std::vector<c10::IValue>& stack) {
  const auto end = stack.end();
  if (instruction.op == torch::jit::JF && end[-1].isBool()) {
    return end[-1].toBool() ? kWentOn : kJumped;
  }
  if (instruction.op == torch::jit::LOOP) {
    const auto frame = end - (instruction.N + 1);
    if (frame[0].isInt() && frame[1].isInt() && frame[2].isBool()) {
      return frame[0].toInt() < frame[1].toInt() && frame[2].toBool() ? kWentOn : kJumped;
    }
  }
  return 0;
}

class Reporter : public driver::Observer {
 public:
  void loaded(lta_module* module) override {
    functions.clear();
    for (const auto& function : module->module.compilation_unit().methods()) {
      mobile::Code& code = function->get_code();
      functions.push_back(&code);
      ran[&code].resize(code.instructions_.size());
    }
  }

  void write(json::Writer& out) override {
    out.key("coverage").open('[');
    for (const mobile::Code* code : functions) {
      std::string text = ran[code];
      for (char& one : text) {
        one = char('0' + one);
      }
      out.string(text);
    }
    out.close(']');
  }
};

} // namespace

driver::Observer& observer() {
  static Reporter reporter;
  return reporter;
}

void runs(const mobile::Code& code, size_t pc, torch::jit::Instruction instruction,
          const std::vector<c10::IValue>& stack) {
  std::string& of_code = ran[&code];
  if (of_code.size() <= pc) {
    of_code.resize(code.instructions_.size());
  }
  of_code[pc] |= char(kRan | way_of(instruction, stack)); // the interpreter has asked for `pc`
}

} // namespace coverage
