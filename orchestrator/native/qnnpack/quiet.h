// Read first by qlinear_dynamic.cpp, which warns at every call of a layer whose model asks for
// activations of seven bits. FBGEMM needs them, so that its sums stay in 16 bits; QNNPACK takes all
// eight, which is no less exact. Its only warning is that one.
#pragma once

#include "checked_layers.h"

#undef TORCH_WARN
#define TORCH_WARN(...) ((void)0)
