#include "levels.h"
#include "maths.h"
#include "rows.h"

namespace lta {

using namespace maths;

static LTA_INLINE void gelu_in_lanes(const float* from, float* to, int64_t count) {
  map([](Floats x) LTA_ALWAYS { return x * 0.5f * (1.0f + maths::erf(x * 0.707106781186547524f)); },
      from, to, count);
}

static LTA_INLINE void gelu_by_tanh_in_lanes(const float* from, float* to, int64_t count) {
  map(
      [](Floats x) LTA_ALWAYS {
        const Floats inner = 0.797884560802865356f * (x + 0.044715f * (x * x * x));
        return 0.5f * x * (1.0f + maths::tanh(inner));
      },
      from, to, count);
}

static LTA_INLINE void silu_in_lanes(const float* from, float* to, int64_t count) {
  map([](Floats x) LTA_ALWAYS { return x / (1.0f + maths::exp(-x)); }, from, to, count);
}

#define LTA_MAP(name) \
  LTA_LEVELS(name, (const float* from, float* to, int64_t count), (from, to, count))

LTA_MAP(gelu)
LTA_MAP(gelu_by_tanh)
LTA_MAP(silu)

} // namespace lta
