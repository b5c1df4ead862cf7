#include "pooling_rows.h"
#include "levels.h"
#include "maths.h"

namespace lta {

using namespace maths;

// What `join` makes of a result's numbers, from `start` on, row by row.
template <class Join>
static LTA_INLINE Floats joined(const PooledRow& row, const Window& across, int64_t channel,
                                Floats start, Join join) {
  const int64_t left = row.channels - channel;
  const float* line = row.from + channel +
      (row.down.first * row.in_width + across.first) * row.channels;
  for (int64_t y = 0; y < row.down.count; ++y) {
    const float* at = line;
    for (int64_t x = 0; x < across.count; ++x) {
      start = join(start, load(at, left, 0));
      at += row.step_across * row.channels;
    }
    line += row.step_down * row.in_width * row.channels;
  }
  return start;
}

static LTA_INLINE void largest_in_windows_in_lanes(const PooledRow& row) {
  for (int64_t i = 0; i < row.out_width; ++i) {
    for (int64_t channel = 0; channel < row.channels; channel += kLanes) {
      const Floats found = joined(
          row, row.across[i], channel, all(-__builtin_inff()), [](Floats most, Floats x) LTA_ALWAYS {
            return (x > most) | (x != x) ? x : most;
          });
      store(row.to + i * row.channels + channel, row.channels - channel, found);
    }
  }
}

static LTA_INLINE void means_of_windows_in_lanes(const PooledRow& row, int64_t divisor,
                                                 bool with_padding) {
  for (int64_t i = 0; i < row.out_width; ++i) {
    const Window& across = row.across[i];
    const int64_t numbers = with_padding ? row.down.whole * across.whole
                                         : row.down.count * across.count;
    const bool none = row.down.count <= 0 || across.count <= 0;
    const float by = none ? 1 : float(divisor != 0 ? divisor : numbers);
    for (int64_t channel = 0; channel < row.channels; channel += kLanes) {
      const Floats sum = joined(row, across, channel, Floats{},
                                [](Floats sum, Floats x) LTA_ALWAYS { return sum + x; });
      store(row.to + i * row.channels + channel, row.channels - channel, sum / by);
    }
  }
}

LTA_LEVELS(largest_in_windows, (const PooledRow& row), (row))
LTA_LEVELS(means_of_windows, (const PooledRow& row, int64_t divisor, bool with_padding),
           (row, divisor, with_padding))

} // namespace lta
