#include "library.h"
extern "C" void work(int);
static void add_kernel() { work(1); }
static void relu_kernel() { work(2); }
static void boxed() { work(3); }
void quantized_linear() { work(4); }

BLOCK(IMPL_, IMPL, "aten", "CPU", aten_CPU_7) {
  m.impl("add.Tensor", &add_kernel);
  m.impl("aten::relu", &relu_kernel);
}
void register_classes();
BLOCK(FRAGMENT_, DEF, "quantized", nullptr, quantized_9) {
  register_classes();
  m.def("linear(Tensor x) -> Tensor", &quantized_linear);
  m.def("quantized::undone(Tensor x) -> Tensor");
}
BLOCK(, DEF, "_quantized", nullptr, _quantized) {
  m.def(SELECTIVE("_quantized::conv2d(Tensor x) -> Tensor"));
  m.def(SELECTIVE("_quantized::add(Tensor x) -> Tensor"));
}
BLOCK(IMPL_, IMPL, "_", "AutogradCPU", __AutogradCPU_11) {
  m.fallback(torch::CppFunction(&boxed));
}
namespace at {
namespace {
void conv_kernel() { work(8); }
void prepack_kernel() { work(9); }
BLOCK(IMPL_, IMPL, "_quantized", "QuantizedCPU", _quantized_QuantizedCPU_12) {
  m.impl(SELECTIVE("_quantized::conv2d"), FN(conv_kernel));
  m.impl(SELECTIVE("_quantized::prepack"), FN(prepack_kernel));
}
BLOCK(IMPL_, IMPL, "old", "CPU", old_CPU_13) {
  m.impl(SELECTIVE("old::conv2d"), FN(conv_kernel));
  m.impl(SELECTIVE("old::prepack"), FN(prepack_kernel));
}
} // namespace
} // namespace at
