// Read first by XNNPACK's float kernels for SSE that compute layers.
//
// They clamp by `min(sum, most)`, and the instruction gives its second operand where one is not a
// number: a NaN became the limit, an infinity in a layer without activation. With the operands the
// other way round the NaN passes, as in PyTorch and in XNNPACK's kernels for AVX and NEON.
#pragma once

#include <xmmintrin.h>

#define _mm_min_ps(sums, limits) _mm_min_ps((limits), (sums))
#define _mm_max_ps(sums, limits) _mm_max_ps((limits), (sums))
