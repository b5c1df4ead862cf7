// The errors of a kernel that was called with a dtype that it does not have. See selection_error.h.
#include "selection_error.h"

#include <string>

namespace lta {

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
