#include "library.h"
BLOCK(, DEF, "ink", nullptr, ink) { m.def("smooth(Tensor x) -> Tensor"); }
