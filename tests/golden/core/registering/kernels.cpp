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
BLOCK(FRAGMENT_, DEF, "quantized", nullptr, quantized_9) {
  m.def("linear(Tensor x) -> Tensor", &quantized_linear);
  m.def("quantized::undone(Tensor x) -> Tensor");
}
BLOCK(IMPL_, IMPL, "_", "AutogradCPU", __AutogradCPU_11) {
  m.fallback(torch::CppFunction(&boxed));
}
