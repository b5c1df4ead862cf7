#define LTA_SIXTEEN_LANES
#include "levels.h"
#include "maths.h"
#include "rows.h"

namespace lta {

#define LTA_MAP(name)                                                                   \
  static LTA_INLINE void name##_in_lanes(const float* from, float* to, int64_t count) { \
    maths::map([](maths::Floats x) LTA_ALWAYS { return maths::name(x); }, from, to, count); \
  }                                                                                     \
  LTA_LEVELS(name, (const float* from, float* to, int64_t count), (from, to, count))

LTA_MAP(sigmoid)
LTA_MAP(tanh)
LTA_MAP(exp)
LTA_MAP(erf)

} // namespace lta
