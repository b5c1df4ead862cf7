// What a C++ consumer of the static libraries may include. Compiling this file tells which headers
// a delivery must hold; it is never linked.
#include <ATen/ATen.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>
