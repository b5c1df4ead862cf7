#include "attention_rows.h"

#include "levels.h"
#include "maths.h"

#include <algorithm>

namespace lta {

using namespace maths;

static LTA_INLINE void weigh_in_lanes(const Scores& of) {
  const float least = -__builtin_inff();
  for (int64_t row = 0; row < of.queries; ++row) {
    float* const scores = of.first + row * of.keys;
    const int64_t seen = std::max<int64_t>(0, std::min(of.keys, of.seen + row));
    const float* const mask = of.mask == nullptr ? nullptr : of.mask + row * of.mask_row;
    Floats lanes = all(least);
    for (int64_t i = 0; i < seen; i += kLanes) {
      Floats score = load(scores + i, seen - i, least);
      if (mask != nullptr) {
        score += of.mask_key == 0 ? all(*mask) : load(mask + i, seen - i, 0);
        store(scores + i, seen - i, score);
      }
      lanes = larger(score, lanes);
    }
    const float most = std::max(of.most[row], largest_of(lanes));
    const float shift = most == least ? 0 : most;
    Floats sum = {};
    for (int64_t i = 0; i < seen; i += kLanes) {
      const Floats weight = exp_below(load(scores + i, seen - i, least) - shift);
      sum += weight;
      store(scores + i, seen - i, weight);
    }
    std::fill(scores + seen, scores + of.keys, 0.0f);
    of.kept[row] = exp_below(all(of.most[row] - shift))[0];
    of.sum[row] = sum_of(sum) + of.kept[row] * of.sum[row];
    of.most[row] = most;
  }
}

static LTA_INLINE void scale_rows_in_lanes(float* to, int64_t apart, int64_t rows, int64_t size,
                                           const float* factors) {
  for (int64_t row = 0; row < rows; ++row, to += apart) {
    const float factor = factors[row];
    maths::map([factor](Floats x) LTA_ALWAYS { return x * factor; }, to, to, size);
  }
}

LTA_LEVELS(weigh, (const Scores& of), (of))
LTA_LEVELS(scale_rows,
           (float* to, int64_t apart, int64_t rows, int64_t size, const float* factors),
           (to, apart, rows, size, factors))

} // namespace lta
