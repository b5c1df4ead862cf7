#include "levels.h"
#include "maths.h"
#include "rows.h"

namespace lta {

static LTA_INLINE void add_in_lanes(const float* one, const float* other, float factor, float* to,
                                    int64_t count) {
  const auto some = [=](int64_t i, int64_t left) LTA_ALWAYS {
    const maths::Floats first = maths::load(one + i, left, 0);
    maths::store(to + i, left, first + maths::load(other + i, left, 0) * factor);
  };
  int64_t i = 0;
  for (; i + maths::kLanes <= count; i += maths::kLanes) {
    some(i, maths::kLanes);
  }
  if (i < count) {
    some(i, count - i);
  }
}

LTA_LEVELS(add, (const float* one, const float* other, float factor, float* to, int64_t count),
           (one, other, factor, to, count))

} // namespace lta
