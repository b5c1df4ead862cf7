// Prints what of a model's bytecode the library computes itself, one line a method:
//   forward: aten::linear* aten::add.Tensor
// the operators that a run may call, in their order, with a star behind those that were rewritten.
// usage: consumer MODEL...
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include <torch/csrc/jit/mobile/code.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>

namespace lta {
extern void (*prepare_module)(torch::jit::mobile::Module& module); // native/capi/prepare_module.h
}

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    torch::jit::mobile::Module module = torch::jit::_load_for_mobile(std::string(arguments[i]));
    std::map<std::string, size_t> before;
    for (const auto& function : module.compilation_unit().methods()) {
      before[function->name()] = function->get_code().op_names_.size();
    }
    lta::prepare_module(module);
    for (const auto& [name, known] : before) {
      std::printf("%s:", name.c_str());
      const auto& methods = module.compilation_unit().methods();
      const auto& found = *std::find_if(methods.begin(), methods.end(),
                                        [&](const auto& one) { return one->name() == name; });
      const torch::jit::mobile::Code& code = found->get_code();
      for (const auto& instruction : code.instructions_) {
        if (instruction.op == torch::jit::OP) {
          const auto index = size_t(instruction.X);
          const c10::OperatorName& called = code.op_names_[index];
          std::printf(" %s%s%s%s", called.name.c_str(), called.overload_name.empty() ? "" : ".",
                      called.overload_name.c_str(), index < known ? "" : "*");
        }
      }
      std::printf("\n");
    }
  }
}
