#include "levels.h"
#include "maths.h"
#include "rows.h"

namespace lta {

static LTA_INLINE void add_in_lanes(Operand one, Operand other, float factor, float* to,
                                    int64_t count) {
  int64_t i = 0;
  if (!one.is_one && !other.is_one) {
    for (; i + maths::kLanes <= count; i += maths::kLanes) {
      const maths::Floats first = maths::load(one.from + i, maths::kLanes, 0);
      const maths::Floats second = maths::load(other.from + i, maths::kLanes, 0);
      maths::store(to + i, maths::kLanes, first + second * factor);
    }
  }
  for (; i < count; i += maths::kLanes) {
    const int64_t left = count - i;
    const maths::Floats first =
        one.is_one ? maths::all(*one.from) : maths::load(one.from + i, left, 0);
    const maths::Floats second =
        other.is_one ? maths::all(*other.from) : maths::load(other.from + i, left, 0);
    maths::store(to + i, left, first + second * factor);
  }
}

LTA_LEVELS(add,
           (Operand one, Operand other, float factor, float* to, int64_t count),
           (one, other, factor, to, count))

} // namespace lta
