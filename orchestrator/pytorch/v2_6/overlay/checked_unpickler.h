// Read first by torch/csrc/jit/serialization/unpickler.cpp: as capi/checked_unpickler.h. Besides, PyTorch 2
// reads tensors of Python's subclasses (`torch._tensor._rebuild_from_type_v2`): for one it calls the
// global behind its own, which a crafted pickle need not have. No model of TorchScript has one.
#pragma once

#include "../../../native/capi/model_checks.h"

namespace lta {

// Refuses where a value of it becomes an argument.
struct PythonTensor {
  using Never = PythonTensor();
  [[noreturn]] operator Never*() const {
    expect(false, "a tensor of a subclass in Python");
    __builtin_unreachable();
  }
};

} // namespace lta

// The same text is the type of a parameter where the function is declared and defined (a function that
// returns a PythonTensor), and an argument in readGlobal(), where it is called.
#define rebuildTensorFromTypeV2() rebuildTensorFromTypeV2(::lta::PythonTensor())

#include <torch/csrc/utils/byte_order.h>

#include "../../../native/capi/checked_unpickler.h"
