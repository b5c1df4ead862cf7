#include "library.h"
void work() {
  Tensr x;
  int y = "text";
}
BLOCK(, DEF, "ink", nullptr, ink) { m.def("smooth(Tensor x) -> Tensor", &work); }
