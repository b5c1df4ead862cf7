#include "library.h"
BLOCK(, DEF, "ink", nullptr, ink) { m.def("twice(Tensor x) -> Tensor"); }
