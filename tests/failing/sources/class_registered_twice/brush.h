#include "library.h"
struct Brush {};
static auto brush = torch::class_<Brush>("ink", "Brush");
