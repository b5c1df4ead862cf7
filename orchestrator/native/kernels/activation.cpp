#define LTA_SIXTEEN_LANES
#include "levels.h"
#include "maths.h"
#include "rows.h"

namespace lta {

using namespace maths;

// The normal distribution less a half, to 4e-7: x P(x^2) / Q(x^2), fitted to be a half from 5.4 on,
// where it is that for a float. A third of the operations that erf takes.
static LTA_INLINE Floats normal(Floats x) {
  x = x > all(5.4f) ? all(5.4f) : x; // comparisons with NaN are false: it stays
  x = x < all(-5.4f) ? all(-5.4f) : x;
  const Floats s = x * x;
  Floats p = s * 7.426330284943106e-06f + 4.145252169109881e-04f;
  p = p * s + 6.178183481097221e-03f;
  p = p * s + 5.860365927219391e-02f;
  p = p * s + 3.989415466785431e-01f;
  Floats q = s * 6.088313853069849e-07f + 1.488772250013426e-04f;
  q = q * s + 3.287336090579629e-03f;
  q = q * s + 4.2765628546476364e-02f;
  q = q * s + 3.135529160499573e-01f;
  const Floats h = x * p / (q * s + 1.0f);
  return larger(all(-0.5f), h < all(0.5f) ? h : all(0.5f));
}

static LTA_INLINE void gelu_in_lanes(const float* from, float* to, int64_t count) {
  map([](Floats x) LTA_ALWAYS { return x * (normal(x) + 0.5f); }, from, to, count);
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
