#include "library.h"
struct Packed {};
int width(Packed&) { return 1; }
static auto packed =
    torch::class_<Packed>("quantized", "Packed").def("width", &width);
