// What the C API's handles hold. Only for code linked into the same image (the API, the tracer);
// it is never delivered.
#pragma once

#include <vector>

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/mobile/module.h>

#include "libtorch_app.h"

struct lta_value {
  c10::IValue value;
  // How deep the API has nested it: what a model returns counts as a leaf.
  unsigned depth = 0;
};

struct lta_module {
  torch::jit::mobile::Module module;
  // The methods of the model's own class, not those of its submodules. The module owns them.
  std::vector<torch::jit::mobile::Function*> methods;
};
