#include "library.h"
void work() {}
BLOCK(IMPL_, IMPL, "aten", "CPU", aten_CPU_1) { m.impl("add.Tensor", &work); }
