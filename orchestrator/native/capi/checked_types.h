// Read first by torch/csrc/jit/mobile/type_parser.cpp, and by import.cpp. See model_checks.h.
#pragma once

#include <ATen/core/jit_type.h>
#include <ATen/core/type_factory.h>
#include <c10/util/string_view.h>
#include <torch/csrc/jit/frontend/parser_constants.h>
#include <torch/csrc/jit/mobile/type_parser.h>
#include <torch/custom_class.h>

#include <string>

#include "model_checks.h"

namespace lta {

// The name of a class that a model's text or object asks for. Without the class the type parser
// would go on with no type, and the loader take the object for a module.
inline const std::string& registered(const std::string& name) {
  static const std::string classes("__torch__.torch.classes.");
  if (name.compare(0, classes.size(), classes) == 0 && !torch::getCustomClass(name)) {
    missing_class(name);
  }
  return name;
}

} // namespace lta

// In parseTorchbindClassType(), and in obj_loader().
#define getCustomClass(name) getCustomClass(::lta::registered(name))
