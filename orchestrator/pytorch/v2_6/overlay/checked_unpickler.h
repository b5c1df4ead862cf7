// Read first by torch/csrc/jit/serialization/unpickler.cpp: as capi/checked_unpickler.h. Besides, PyTorch 2
// reads tensors of Python's subclasses (`torch._tensor._rebuild_from_type_v2`): for one it calls the
// global behind its own, which a crafted pickle need not have. No model of TorchScript has one.
#pragma once

#include <torch/csrc/jit/serialization/pickler.h>

#include "capi/model_checks.h"

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

namespace torch::jit {

// setTensorMetadata() of pickler.h, for tensors of the CPU: no device of its own has told how to read what
// else there is. Its table of such functions would be 5 KB.
inline void set_math_bits(
    const at::Tensor& tensor,
    const c10::Dict<c10::IValue, c10::IValue>& bits) {
  for (const auto& bit : bits) {
    const std::string& name = bit.key().toStringRef();
    // as there, a bit counts where it is told, whatever its value
    (void)bit.value().toBool();
    if (name == "conj") {
      tensor._set_conj(true);
    } else if (name == "neg") {
      tensor._set_neg(true);
    }
  }
}

} // namespace torch::jit

// The same text is the type of a parameter where the function is declared and defined (a function that
// returns a PythonTensor), and an argument in readGlobal(), where it is called.
#define rebuildTensorFromTypeV2() rebuildTensorFromTypeV2(::lta::PythonTensor())

#include <torch/csrc/utils/byte_order.h>

#include "capi/checked_unpickler.h"

// In rebuildTensor().
#define setTensorMetadata set_math_bits
