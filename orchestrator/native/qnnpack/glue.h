// Read first by PyTorch's units that call QNNPACK.
#pragma once

#define USE_PYTORCH_QNNPACK
// without, they do not hand a pool to QNNPACK's functions, which take one
#define USE_PTHREADPOOL

#include <pthreadpool.h>
