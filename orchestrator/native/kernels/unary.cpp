#define LTA_SIXTEEN_LANES
#include "levels.h"
#include "maths.h"
#include "rows.h"

#include <cmath>
#include <cstring>

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
LTA_MAP(log)
LTA_MAP(sqrt)
LTA_MAP(floor)
LTA_MAP(ceil)
LTA_MAP(round)
LTA_MAP(trunc)

static LTA_INLINE void rsqrt_in_lanes(const float* from, float* to, int64_t count) {
  maths::map([](maths::Floats x) LTA_ALWAYS { return 1.0f / maths::sqrt(x); }, from, to, count);
}

static LTA_INLINE void reciprocal_in_lanes(const float* from, float* to, int64_t count) {
  maths::map([](maths::Floats x) LTA_ALWAYS { return 1.0f / x; }, from, to, count);
}

// Where a number of some is beyond what `sine` computes: they are few, in a model.
__attribute__((noinline, minsize)) static void sines_of_large(float* at, uint32_t turns) {
  for (int64_t i = 0; i < maths::kLanes; ++i) {
    at[i] = turns == 0 ? std::sin(at[i]) : std::cos(at[i]);
  }
}

template <uint32_t turns>
static LTA_INLINE void sines(const float* from, float* to, int64_t count) {
  maths::map(
      [](maths::Floats x) LTA_ALWAYS {
        if (maths::any_beyond(x, 8192.0f)) {
          float lanes[maths::kLanes];
          std::memcpy(lanes, &x, sizeof lanes);
          sines_of_large(lanes, turns);
          return maths::load(lanes, maths::kLanes, 0);
        }
        return maths::sine(x, turns);
      },
      from, to, count);
}

static LTA_INLINE void sin_in_lanes(const float* from, float* to, int64_t count) {
  sines<0>(from, to, count);
}

static LTA_INLINE void cos_in_lanes(const float* from, float* to, int64_t count) {
  sines<1>(from, to, count);
}

#define LTA_ROW(name) \
  LTA_LEVELS(name, (const float* from, float* to, int64_t count), (from, to, count))

LTA_ROW(rsqrt)
LTA_ROW(reciprocal)
LTA_ROW(sin)
LTA_ROW(cos)

} // namespace lta
