// Read first by qlinear_dynamic.cpp: as qnnpack/quiet.h. PyTorch 2 warns once, by another macro.
#pragma once

#include "qnnpack/quiet.h"

#undef TORCH_WARN_ONCE
#define TORCH_WARN_ONCE(...) ((void)0)
