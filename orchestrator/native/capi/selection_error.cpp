// The errors of a kernel that was called with a dtype that it does not have, and of a call of an
// operator that was left out. See selection_error.h and left_out.h.
#include "selection_error.h"

#include <cstring>
#include <string>

#include "left_out.h"

// In the unit that says what was selected (codegen/templates/selection.cpp.j2).
extern "C" const char lta_left_out_operators[];

namespace lta {

bool is_left_out(const std::string& name) {
  return std::strstr(lta_left_out_operators, ('\n' + name + '\n').c_str()) != nullptr;
}

void left_out(const std::string& name) {
  std::string text("operator '");
  text += name;
  text += "' not selected: no input of the models that this library was built for reaches its call";
  throw c10::Error({__func__, "selection", 0}, std::move(text));
}

void dtype_not_selected(const char* dtype, const char* kernel_tag) {
  std::string text("dtype '");
  text += dtype;
  text += "' not selected for kernel tag ";
  text += kernel_tag;
  // No TORCH_CHECK: it would strip the text again.
  throw c10::Error({__func__, "selection", 0}, std::move(text));
}

void dtype_not_implemented(const char* kernel_tag, c10::ScalarType dtype) {
  std::string text("\"");
  text += kernel_tag;
  text += "\" not implemented for '";
  text += c10::toString(dtype);
  text += '\'';
  throw c10::Error({__func__, "selection", 0}, std::move(text));
}

} // namespace lta
