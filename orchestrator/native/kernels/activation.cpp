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

// As PyTorch's, which divide, too: a product with a sixth is another float.
static LTA_INLINE Floats hard_gate(Floats x) {
  const Floats shifted = larger(all(0.0f), x + 3.0f); // NaN stays
  return shifted > all(6.0f) ? all(6.0f) : shifted;
}

static LTA_INLINE void hardsigmoid_in_lanes(const float* from, float* to, int64_t count) {
  map([](Floats x) LTA_ALWAYS { return hard_gate(x) / 6.0f; }, from, to, count);
}

static LTA_INLINE void hardswish_in_lanes(const float* from, float* to, int64_t count) {
  map([](Floats x) LTA_ALWAYS { return x * hard_gate(x) / 6.0f; }, from, to, count);
}

static LTA_INLINE void leaky_relu_in_lanes(const float* from, float* to, int64_t count,
                                           float slope) {
  map([slope](Floats x) LTA_ALWAYS { return x > all(0.0f) ? x : x * slope; }, from, to, count);
}

// x tanh(log(1 + exp(x))) is x n / (n + 2) with n = exp(x) (exp(x) + 2), and x from 20 on.
static LTA_INLINE void mish_in_lanes(const float* from, float* to, int64_t count) {
  map(
      [](Floats x) LTA_ALWAYS {
        const Floats e = maths::exp(x > all(20.0f) ? all(20.0f) : x);
        const Floats n = e * (e + 2.0f);
        return x * (n / (n + 2.0f));
      },
      from, to, count);
}

static LTA_INLINE void softplus_in_lanes(const float* from, float* to, int64_t count, float beta,
                                         float threshold) {
  map(
      [=](Floats x) LTA_ALWAYS {
        const Floats scaled = x * beta;
        const Floats soft = log1p_of_positive(maths::exp(scaled)) / beta;
        return scaled > all(threshold) ? x : soft;
      },
      from, to, count);
}

static LTA_INLINE void elu_in_lanes(const float* from, float* to, int64_t count, float below,
                                    float above, float factor) {
  map(
      [=](Floats x) LTA_ALWAYS {
        return x > all(0.0f) ? x * above : (maths::exp(x * factor) - 1.0f) * below;
      },
      from, to, count);
}

// Of pairs: one times the sigmoid of the other.
static LTA_INLINE void glu_in_lanes(const float* one, const float* other, float* to,
                                    int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const Floats gate = 1.0f + maths::exp(-load(other + i, count - i, 0));
    store(to + i, count - i, load(one + i, count - i, 0) / gate);
  }
}

#define LTA_MAP(name) \
  LTA_LEVELS(name, (const float* from, float* to, int64_t count), (from, to, count))

LTA_MAP(gelu)
LTA_MAP(gelu_by_tanh)
LTA_MAP(silu)
LTA_MAP(hardsigmoid)
LTA_MAP(hardswish)
LTA_MAP(mish)

LTA_LEVELS(leaky_relu, (const float* from, float* to, int64_t count, float slope),
           (from, to, count, slope))
LTA_LEVELS(softplus, (const float* from, float* to, int64_t count, float beta, float threshold),
           (from, to, count, beta, threshold))
LTA_LEVELS(elu,
           (const float* from, float* to, int64_t count, float below, float above, float factor),
           (from, to, count, below, above, factor))
LTA_LEVELS(glu, (const float* one, const float* other, float* to, int64_t count),
           (one, other, to, count))

} // namespace lta
