// The error of a damaged model, see model_checks.h; and what is done with models besides.
#include "extension.h"
#include "model_checks.h"
#include "prepare_module.h"

#include <string>

#include <c10/util/Exception.h>

namespace lta {

__thread size_t record_bytes = 0;
void (*prepare_module)(torch::jit::mobile::Module&) = nullptr;
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

} // namespace lta
