// Calls operators with tensors that the app's kernels are not for, and prints what each gives:
//   narrow of an ordinary tensor: [1, 2]
//   narrow of a negative tensor: Could not run 'aten::narrow' with arguments from ...
#include <cstdio>
#include <exception>
#include <string>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

namespace {

at::Tensor ordinary() {
  at::Tensor tensor(at::detail::empty_cpu({2, 2}, at::kFloat));
  for (int i = 0; i < 4; ++i) {
    tensor.data_ptr<float>()[i] = float(i);
  }
  return tensor;
}

// Another kind of tensor over the same memory, as far as the dispatcher can tell.
at::Tensor of(c10::DispatchKey key) {
  const at::Tensor tensor = ordinary();
  auto other = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), c10::DispatchKeySet(key), tensor.dtype());
  other.unsafeGetTensorImpl()->set_sizes_contiguous({2, 2});
  return other;
}

at::Tensor negative() {
  at::Tensor tensor = ordinary();
  tensor._set_neg(true);
  return tensor;
}

template <class Call>
void print(const char* what, const Call& call) {
  std::string given;
  try {
    const at::Tensor result = call();
    for (int64_t i = 0; i < result.dim(); ++i) {
      given += (i ? ", " : "[") + std::to_string(result.size(i));
    }
    given += ']';
  } catch (const c10::Error& error) {
    given = error.msg();
  }
  std::printf("%s: %s\n", what, given.c_str());
}

} // namespace

int main() {
  print("narrow of an ordinary tensor", [] { return ordinary().narrow(0, 0, 1); });
  print("narrow of a negative tensor", [] { return negative().narrow(0, 0, 1); });
  print("zero_ of an ordinary tensor", [] { return ordinary().zero_(); });
  print("zero_ of a quantised tensor", [] { return of(c10::DispatchKey::QuantizedCPU).zero_(); });
  print("zero_ of a tensor without memory", [] { return of(c10::DispatchKey::Meta).zero_(); });
  print("slice of a quantised tensor", [] {
    return of(c10::DispatchKey::QuantizedCPU).slice(0, 0, 1);
  });
  print("copy_ of a sparse tensor", [] {
    return ordinary().copy_(of(c10::DispatchKey::SparseCPU));
  });
  print("zero_ of no tensor", [] { return at::Tensor().zero_(); });
  print("an operator that is not there", [] { return ordinary().mul(ordinary()); });
  return 0;
}
