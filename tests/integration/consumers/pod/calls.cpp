// Every call of the classes, over camera's library: `any.ptl` gives back its argument, whatever it is.
#include <torch/script.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace {

int checks = 0;

void check(bool good, const char* text, int line) {
  ++checks;
  if (!good) {
    std::printf("line %d: %s\n", line, text);
    std::exit(1);
  }
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__, __LINE__)

template <class Call>
std::string told(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}
#define TOLD(...) told([&] { (void)(__VA_ARGS__); })

void tensors() {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  at::Tensor blob = torch::from_blob(memory.data(), {2, 3}, at::kFloat);
  CHECK(blob.defined() && blob.dim() == 2 && blob.ndimension() == 2 && blob.numel() == 6);
  CHECK(blob.sizes() == at::IntArrayRef({2, 3}) && blob.strides() == at::IntArrayRef({3, 1}));
  CHECK(blob.size(0) == 2 && blob.size(-1) == 3 && blob.stride(0) == 3);
  CHECK(blob.nbytes() == 24 && blob.element_size() == 4 && blob.itemsize() == 4);
  CHECK(blob.scalar_type() == at::kFloat && blob.dtype() == torch::kFloat32);
  CHECK(blob.is_contiguous() && blob.is_floating_point() && blob.is_cpu() && !blob.is_quantized());
  CHECK(blob.device() == at::Device(at::kCPU));
  CHECK(blob.data_ptr() == memory.data() && blob.data_ptr<float>()[5] == 6);
  CHECK(blob.const_data_ptr<float>() == blob.mutable_data_ptr<float>());
  CHECK(blob[1][2].item<float>() == 6 && blob[-1].sizes() == at::IntArrayRef({3}));
  CHECK(blob.accessor<float, 2>()[1][0] == 4 && blob.accessor<float, 2>().stride(0) == 3);
  CHECK(blob.accessor<float, 2>().sizes().vec() == std::vector<int64_t>({2, 3}));
  CHECK(*blob.accessor<float, 2>().data() == 1);
  memory[5] = 7;
  CHECK(blob[1][2].item<double>() == 7);

  const at::Tensor turned = torch::from_blob(memory.data(), {3, 2}, {1, 3}, at::kFloat);
  CHECK(TOLD(torch::from_blob(memory.data(), {3, 2}, {1}, at::kFloat)) ==
        "from_blob: 1 strides for 2 dimensions");
  CHECK(!turned.is_contiguous() && turned.contiguous().data_ptr<float>()[1] == 4);
  CHECK(turned.reshape({6})[1].item<int>() == 4 && blob.view({3, -1})[2][1].item<int64_t>() == 7);
  CHECK(blob.clone().data_ptr() != blob.data_ptr() && blob.cpu().data_ptr() == blob.data_ptr());
  CHECK(blob.detach().data_ptr() == blob.data_ptr());
  CHECK(blob.unsqueeze(0).sizes() == at::IntArrayRef({1, 2, 3}));
  CHECK(blob.unsqueeze(-1).squeeze(-1).sizes() == blob.sizes() && blob.squeeze(0).dim() == 2);

  int freed = 0;
  {
    at::Tensor row;
    {
      auto owned = torch::from_blob(
          memory.data(), {2, 3}, [&](void* data) { freed += data == memory.data(); }, at::kFloat);
      row = owned[1];
    }
    CHECK(freed == 0 && row[0].item<float>() == 4);
  }
  CHECK(freed == 1);
  // a size that cannot be: the memory is given back, once
  CHECK(TOLD(torch::from_blob(
            memory.data(), {-1}, [&](void*) { ++freed; }, at::kFloat)) != "nothing was thrown");
  CHECK(freed == 2);

  CHECK(torch::zeros({2, 2}, at::kLong)[1][1].item<int64_t>() == 0);
  CHECK(torch::empty({0, 3}).numel() == 0 && torch::empty({0, 3}).sizes().vec()[1] == 3);
  CHECK(torch::tensor({1.5, 2.5})[1].item<double>() == 2.5);
  CHECK(torch::tensor(std::vector<int64_t>{4, 5}).data_ptr<int64_t>()[1] == 5);
  CHECK(torch::tensor({true, false}).dtype() == at::kBool);
  CHECK(torch::from_blob(memory.data(), {3}, torch::dtype(at::kFloat)).numel() == 3);
  CHECK(torch::from_blob(memory.data(), {3}, at::TensorOptions().dtype(at::kInt).device(at::kCPU))
            .scalar_type() == at::kInt);
  uint16_t halves[] = {0x3c00, 0xc100, 0x0001, 0x7c00, 0x3555};
  const auto half = torch::from_blob(halves, {5}, at::kHalf);
  CHECK(half[0].item<float>() == 1 && half[1].item<float>() == -2.5f);
  CHECK(half[2].item<float>() == std::ldexp(1.0f, -24) && std::isinf(half[3].item<float>()));
  CHECK(std::fabs(half[4].item<float>() - 0.33325f) < 1e-5f);
  uint16_t brain[] = {0x3fc0};
  CHECK(torch::from_blob(brain, {1}, at::kBFloat16).item<float>() == 1.5f);

  CHECK(TOLD(blob.data_ptr<int64_t>()) == "expected scalar type int64 but found float32");
  CHECK(TOLD(blob.accessor<float, 3>()) == "TensorAccessor expected 3 dims but tensor has 2");
  CHECK(TOLD(blob.item<float>()) == "a Tensor with 6 elements cannot be converted to Scalar");
  CHECK(TOLD(blob.size(2)) == "Dimension out of range: 2 of a tensor with 2");
  CHECK(TOLD(blob[2]) == "index 2 is out of bounds for dimension 0 with size 2");
  CHECK(TOLD(blob.view({4, 2})) == "shape is invalid for input of size 6");
  CHECK(TOLD(turned.view({6})) == "view of a tensor that is not contiguous: use reshape");
  CHECK(TOLD(at::Tensor().dim()) == "the tensor is undefined");
  CHECK(TOLD(blob.sizes().at(2)) == "ArrayRef: invalid index 2 of 2");
}

void values(torch::jit::mobile::Module& module) {
  using c10::IValue;
  const auto back = [&](IValue value) { return module.forward({std::move(value)}); };
  CHECK(back({}).isNone() && IValue(at::Tensor()).isNone() && IValue(c10::nullopt).isNone());
  CHECK(back(true).toBool() && back(true).isBool() && back(3).toInt() == 3 && back(3).isInt());
  CHECK(back(int64_t{1} << 40).toInt() == int64_t{1} << 40 && back(0.5).toDouble() == 0.5);
  CHECK(back(0.5f).isDouble() && back(0.5f).isScalar() && back(3).to<int>() == 3);
  CHECK(back("caf\xc3\xa9").toStringRef() == "caf\xc3\xa9" && back("").toString()->string().empty());
  CHECK(back(std::string("a\0b", 3)).toStringRef().size() == 3 && back("a").isString());
  CHECK(back(std::optional<int64_t>(2)).toInt() == 2 && back(std::optional<double>()).isNone());
  const auto one = torch::tensor({1.0f, 2.0f});
  CHECK(back(one).toTensor().data_ptr() == one.data_ptr() && back(one).isTensor());
  const IValue same = back(one);
  CHECK(same.to<at::Tensor>().numel() == 2 && same == same.to<IValue>() && same != back(1));

  const auto pair = back(std::make_tuple(one, int64_t{5}, std::string("x")));
  CHECK(pair.isTuple() && pair.toTuple()->elements().size() == 3 && pair.toTuple()->size() == 3);
  CHECK(pair.toTuple()->elements()[1].toInt() == 5 && pair.toTupleRef().elements()[2] == "x");
  const auto list = back(std::vector<at::Tensor>{one, one});
  CHECK(list.isTensorList() && list.toTensorVector().size() == 2 && !list.isIntList());
  CHECK(list.toTensorList().get(1).numel() == 2 && list.toList().size() == 2);
  CHECK(back(at::TensorList({one})).toListRef().size() == 1);
  CHECK(back(std::vector<int64_t>{1, 2}).toIntVector()[1] == 2);
  CHECK(back(c10::List<int64_t>({1, 2})).toIntList()[0] == 1);
  CHECK(back(std::vector<double>{0.5}).toDoubleList().vec()[0] == 0.5);
  CHECK(back(std::vector<double>{0.5}).toDoubleVector().size() == 1);
  CHECK(back(std::vector<bool>{true, false}).toBoolList()[0] && back(std::vector<bool>{}).isList());
  c10::List<at::Tensor> grown;
  grown.reserve(2);
  grown.push_back(one);
  grown.emplace_back(one);
  CHECK(!grown.empty() && IValue(grown).isTensorList());
  CHECK(IValue(std::vector<double>{1}).isDoubleList() && IValue(std::vector<bool>{true}).isBoolList());

  c10::Dict<std::string, at::Tensor> named;
  named.insert("a", one);
  named.insert("a", at::Tensor());
  named.insert_or_assign("b", one);
  named.insert_or_assign("b", torch::zeros({1}));
  CHECK(named.size() == 2 && !named.empty() && named.contains("a") && named.at("a").numel() == 2);
  const c10::impl::GenericDict dict = back(named).toGenericDict();
  CHECK(dict.size() == 2 && dict.at("b").toTensor().numel() == 1 && !dict.contains("c"));
  CHECK(dict.find("c") == dict.end() && dict.begin()->key() == "a");
  int64_t sum = 0;
  for (const auto& entry :
       back(std::unordered_map<std::string, int64_t>{{"x", 1}, {"y", 2}}).toGenericDict()) {
    sum += entry.value().toInt();
  }
  CHECK(sum == 3 && back(std::map<int64_t, double>{{1, 0.5}}).toGenericDict().at(1).toDouble() == 0.5);
  CHECK(back(named).isGenericDict() && IValue(1) != IValue(1.0) && IValue() == IValue());

  CHECK(TOLD(back(1).toTensor()) == "Expected Tensor but got Int");
  CHECK(TOLD(back(one).toTuple()) == "Expected Tuple but got Tensor");
  CHECK(TOLD(back(one).toGenericDict()) == "Expected GenericDict but got Tensor");
  CHECK(TOLD(back("a").toList()) == "Expected GenericList but got String");
  CHECK(TOLD(dict.at("c")) == "Argument passed to at() was not in the map.");
  CHECK(back(1.0).tagKind() == "Double");
}

void modules(torch::jit::mobile::Module& module, const std::string& path) {
  CHECK(module.get_methods().size() == 1 && module.find_method("forward").has_value());
  CHECK(!module.find_method("other") && !module.is_training() && module.bytecode_version() >= 4);
  CHECK(module.get_method("forward")({1}).toInt() == 1 && module.run_method("forward", 2).toInt() == 2);
  CHECK(TOLD(module.get_method("other")) == "Method 'other' is not defined.");
  CHECK(TOLD(module.forward({1, 2})).find("INVALID_ARGUMENT") == std::string::npos);
  CHECK(TOLD(torch::jit::mobile::Module().get_methods()) == "the module was not loaded");
  std::ifstream stream(path, std::ios::binary);
  CHECK(torch::jit::_load_for_mobile(stream).forward({3}).toInt() == 3);
  CHECK(torch::jit::_load_for_mobile(path, torch::Device(torch::kCPU)).forward({4}).toInt() == 4);
  try {
    torch::jit::_load_for_mobile("no such file");
    CHECK(false);
  } catch (const c10::Error& error) {
    CHECK(error.status() == LTA_LOAD_FAILED && error.msg() == error.what_without_backtrace());
  }
  const torch::NoGradGuard none;
  const torch::autograd::AutoGradMode mode(false);
  const torch::jit::GraphOptimizerEnabledGuard optimizer(false);
  const at::AutoDispatchBelowADInplaceOrView below;
  at::globalContext().setQEngine(at::QEngine::QNNPACK);
  at::set_num_threads(1);
  CHECK(at::get_num_threads() == 1 && torch::get_num_threads() == 1);
}

}  // namespace

int main(int, char** words) {
  auto module = torch::jit::_load_for_mobile(words[1]);
  tensors();
  values(module);
  modules(module, words[1]);
  std::printf("%d checks\n", checks);
  return 0;
}
