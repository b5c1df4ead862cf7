// Loads a model and prints what it gives, one line a result:
//   forward 0: float32 [1, 5] 0.25 0.1 ...
// usage: consumer MODEL [SIZE...]
// Without sizes the model's bundled inputs of forward are run, else a float32 tensor of zeros.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/mobile/import.h>
#include <torch/csrc/jit/mobile/module.h>

namespace {

constexpr int64_t kShown = 8;

const char* name_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? "float32" : dtype == at::kLong ? "int64" : at::toString(dtype);
}

void print_tensor(const at::Tensor& tensor) {
  std::printf(" %s [", name_of(tensor.scalar_type()));
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    std::printf("%s%lld", i ? ", " : "", static_cast<long long>(tensor.size(i)));
  }
  std::printf("]");
  for (int64_t i = 0; tensor.is_contiguous() && i < std::min(kShown, tensor.numel()); ++i) {
    if (tensor.scalar_type() == at::kFloat) {
      std::printf(" %.6g", double(tensor.data_ptr<float>()[i]));
    } else if (tensor.scalar_type() == at::kLong) {
      std::printf(" %lld", static_cast<long long>(tensor.data_ptr<int64_t>()[i]));
    }
  }
}

void print_value(const c10::IValue& value) {
  if (value.isTensor()) {
    print_tensor(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      print_value(item);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      print_value(item);
    }
  }
}

void run(torch::jit::mobile::Module& module, size_t index, std::vector<c10::IValue> arguments) {
  const c10::IValue result = module.forward(std::move(arguments));
  std::printf("forward %zu:", index);
  print_value(result);
  std::printf("\n");
}

c10::IValue zeros(int ndim, char** sizes) {
  std::vector<int64_t> shape;
  for (int i = 0; i < ndim; ++i) {
    shape.push_back(std::atoll(sizes[i]));
  }
  // Not at::zeros(): an operator that the app's models do not use is not in its libtorch.
  at::Tensor tensor(at::detail::empty_cpu(shape, at::kFloat));
  std::memset(tensor.data_ptr(), 0, tensor.nbytes());
  return tensor;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: consumer MODEL [SIZE...]\n");
    return 2;
  }
  try {
    const c10::InferenceMode guard;
    auto module = torch::jit::_load_for_mobile(argv[1]);
    if (argc > 2) {
      run(module, 0, {zeros(argc - 2, argv + 2)});
      return 0;
    }
    size_t index = 0;
    const c10::IValue inputs = module.run_method("get_all_bundled_inputs");
    for (const c10::IValue& input : inputs.toListRef()) {
      run(module, index++, input.toTupleRef().elements());
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
