#include "library.h"
struct Other {};
static auto other = torch::class_<Other>("ink", "Brush");
