// The errors of a damaged model, see model_checks.h, and of a call that no input should have reached,
// see left_out.h; and what is done with models besides.
#include "extension.h"
#include "left_out.h"
#include "model_checks.h"
#include "prepare_module.h"

#include <cstring>
#include <string>

#include <c10/util/Exception.h>

// In the unit that says what was selected (codegen/templates/selection.cpp.j2).
extern "C" const char lta_left_out_operators[];

namespace lta {

__thread size_t record_bytes = 0;
void (*prepare_module)(torch::jit::mobile::Module&) = nullptr;
void (*shorten_module)(torch::jit::mobile::Module&) = nullptr;
void (*end_of_run)() = nullptr;
void (*end_of_module)() = nullptr;
Extension* extension = nullptr;

void damaged(const char* what) {
  std::string text("the model is damaged: ");
  text += what;
  // No TORCH_CHECK: it would strip the text again.
  throw c10::Error({__func__, "model", 0}, std::move(text));
}

void missing_class(const std::string& name) {
  std::string text("the model holds an object of class ");
  text += name;
  text += ", which is not in this library";
  throw c10::Error({__func__, "model", 0}, std::move(text));
}

bool is_left_out(const std::string& name) {
  return std::strstr(lta_left_out_operators, ('\n' + name + '\n').c_str()) != nullptr;
}

bool lacks_operators() { return std::strcmp(lta_left_out_operators, "\n*\n") == 0; }

void left_out(const std::string& name) {
  std::string text("operator '");
  text += name;
  text += "' not selected: no input of the models that this library was built for reaches its call";
  throw c10::Error({__func__, "selection", 0}, std::move(text));
}

} // namespace lta
