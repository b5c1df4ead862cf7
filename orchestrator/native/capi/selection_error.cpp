// The error of a kernel that was selected without a dtype. See selection_error.h.
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

} // namespace lta
