// Elementary functions of floats, eight or sixteen at once, in polynomials: no tables, no calls, the same source
// for every processor.
//
// Their largest errors in units in the last place of the result (of the least normal number where
// that is larger), as tests/unit/native/test_native_maths.py holds them at both levels:
//   exp 1.5   tanh 1.4   erf 1.2   sigmoid 2.4   log 0.9
// sqrt is rounded correctly; sin and cos are within 1.0e-7.
// NaN gives NaN, infinities their limits. A 32-bit ARM processor's lanes take denormals for zero.
//
// Meaning of LTA_LEVELS: a function of rows is compiled twice for x86-64, once for every processor
// and once for those with AVX2 and FMA3; `has_wide_lanes` (levels.h) says which one runs. A source that
// defines LTA_SIXTEEN_LANES first has a third one in libraries with the CPU level `avx512`: all three
// take sixteen at once there.
#pragma once

#include <cstdint>
#include <cstring>

namespace lta {

namespace maths {
// The same names in two sources are functions of other vectors: each number of lanes has a namespace.
#if defined(LTA_SIXTEEN_LANES) && defined(LTA_WITH_AVX512)
inline namespace sixteen_lanes {
#else
inline namespace eight_lanes {
#endif

#define LTA_ALWAYS __attribute__((always_inline)) // of a lambda
#define LTA_INLINE inline LTA_ALWAYS

#if defined(LTA_SIXTEEN_LANES) && defined(LTA_WITH_AVX512)
#define LTA_WIDEST __attribute__((target("avx512f,fma")))
constexpr int64_t kLanes = 16;
#else
constexpr int64_t kLanes = 8;
#endif
typedef float Eight __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Bits __attribute__((vector_size(4 * kLanes)));

LTA_INLINE Floats all(float value) { return Floats{} + value; }

// Fewer numbers than kLanes, without a call.
LTA_INLINE void copy_some(void* to, const void* from, int64_t count) {
  auto* into = static_cast<float*>(to);
  auto* of = static_cast<const float*>(from);
  if (kLanes > 8 && count & 8) {
    std::memcpy(into, of, 8 * sizeof(float));
    into += 8;
    of += 8;
  }
  if (count & 4) {
    std::memcpy(into, of, 4 * sizeof(float));
    into += 4;
    of += 4;
  }
  if (count & 2) {
    std::memcpy(into, of, 2 * sizeof(float));
    into += 2;
    of += 2;
  }
  if (count & 1) {
    std::memcpy(into, of, sizeof(float));
  }
}

// The next of a row of which `left` are left: where they are fewer than kLanes, the others are `rest`.
// One loop for whole vectors and the last part keeps functions of rows small.
// (Each way has a variable of its own: one whose address is taken for both would lie in memory.)
LTA_INLINE Floats load(const float* from, int64_t left, float rest) {
  if (left >= kLanes) {
    Floats lanes;
    std::memcpy(&lanes, from, sizeof lanes);
    return lanes;
  }
#ifdef LTA_WIDEST
  if (left == 8) { // what a row of a model's often leaves of sixteen: without a way through memory
    Eight half;
    std::memcpy(&half, from, sizeof half);
    return __builtin_shufflevector(half, Eight{} + rest, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
                                   13, 14, 15);
  }
#endif
  Floats part = all(rest);
  copy_some(&part, from, left);
  return part;
}

LTA_INLINE void store(float* to, int64_t left, Floats lanes) {
  if (left >= kLanes) {
    std::memcpy(to, &lanes, sizeof lanes);
    return;
  }
#ifdef LTA_WIDEST
  if (left == 8) {
    const Eight half = __builtin_shufflevector(lanes, lanes, 0, 1, 2, 3, 4, 5, 6, 7);
    std::memcpy(to, &half, sizeof half);
    return;
  }
#endif
  const Floats part = lanes;
  copy_some(to, &part, left);
}

// Of NaN and a number: the second.
LTA_INLINE Floats larger(Floats one, Floats other) { return one > other ? one : other; }

LTA_INLINE float sum_of(Floats of) {
#ifdef LTA_WIDEST
  const Eight lanes = __builtin_shufflevector(of, of, 0, 1, 2, 3, 4, 5, 6, 7) +
      __builtin_shufflevector(of, of, 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const Eight lanes = of;
#endif
  return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
      ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

template <class Lanes>
LTA_INLINE Lanes larger_of(Lanes one, Lanes other) {
  return one > other ? one : other;
}

LTA_INLINE float largest_of(Floats of) {
#ifdef LTA_WIDEST
  const Eight lanes = larger_of<Eight>(__builtin_shufflevector(of, of, 0, 1, 2, 3, 4, 5, 6, 7),
                                    __builtin_shufflevector(of, of, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const Eight lanes = of;
#endif
  typedef float Four __attribute__((vector_size(16)));
  const Four four = larger_of<Four>(__builtin_shufflevector(lanes, lanes, 0, 1, 2, 3),
                                 __builtin_shufflevector(lanes, lanes, 4, 5, 6, 7));
  const float one = four[0] > four[2] ? four[0] : four[2];
  const float other = four[1] > four[3] ? four[1] : four[3];
  return one > other ? one : other;
}

// exp(r) - 1 for |r| <= ln(2) / 2, with n such that exp(x) = 2^n exp(r), as bits; the polynomial is
// that of Cephes's expf.
LTA_INLINE Floats reduced_exp(Floats x, Bits* n) {
  const float round = 12582912.0f; // 1.5 * 2^23: a sum with it has no digits behind the point
  const Floats shifted = x * 1.44269504088896341f + round;
  const Floats whole = shifted - round;
  *n = Bits(shifted) - 0x4B400000u;
  // ln(2) in two parts; a product with the first is exact
  const Floats r = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}

// exp(x) for -87 <= x <= 88.
LTA_INLINE Floats exp_of_small(Floats x) {
  Bits n;
  const Floats p = reduced_exp(x, &n) + 1.0f;
  return p * Floats((n + 127u) << 23);
}

// exp(x) for x <= 0, zero where that is below 1.7e-38.
LTA_INLINE Floats exp_below(Floats x) {
  const Floats e = exp_of_small(x);
  return x < all(-87.0f) ? Floats{} : e; // NaN stays
}

LTA_INLINE Floats exp(Floats x) {
  x = x < all(-104.0f) ? all(-104.0f) : x; // comparisons with NaN are false: it stays
  x = x > all(89.0f) ? all(89.0f) : x;
  Bits n;
  const Floats p = reduced_exp(x, &n) + 1.0f;
  // 2^n in two factors: n is beyond a float's exponents where the result is denormal or infinite
  const Bits half = Bits(Ints(n) >> 1);
  return p * Floats((half + 127u) << 23) * Floats((n - half + 127u) << 23);
}

LTA_INLINE Floats magnitude(Floats x) { return Floats(Bits(x) & 0x7FFFFFFFu); }
LTA_INLINE Floats with_sign_of(Floats x, Floats sign) {
  return Floats(Bits(x) | (Bits(sign) & 0x80000000u));
}

LTA_INLINE Floats sigmoid(Floats x) {
  const Floats e = exp(-magnitude(x));
  return (x < all(0.0f) ? e : all(1.0f)) / (1.0f + e);
}

// Cephes's tanhf.
LTA_INLINE Floats tanh(Floats x) {
  Floats t = magnitude(x);
  const Floats s = x * x;
  Floats p = s * -5.70498872745e-3f + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const Floats near = (p * s) * x + x;
  t = t > all(10.0f) ? all(10.0f) : t; // from 9.1 on a float's tanh is one
  const Floats far = 1.0f - 2.0f / (exp_of_small(t + t) + 1.0f);
  return t < all(0.625f) ? near : with_sign_of(far, x);
}

// log(x) for normal x > 0: Cephes's logf, of x = m 2^n with sqrt(1/2) <= m < sqrt(2). NaN and
// infinity are the caller's.
LTA_INLINE Floats log_of_normal(Floats x) {
  const Bits above = Bits(x) - 0x3F3504F3u; // of sqrt(1/2)
  const Ints n = Ints(above) >> 23;
  const Floats m = Floats((above & 0x007FFFFFu) + 0x3F3504F3u) - 1.0f;
  const Floats e = __builtin_convertvector(n, Floats);
  const Floats s = m * m;
  Floats p = m * 7.0376836292e-2f - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  // ln(2) in two parts, as in `reduced_exp`
  const Floats low = p * (m * s) + e * -2.12194440e-4f - 0.5f * s;
  return (m + low) + e * 0.693359375f;
}

LTA_INLINE Floats log(Floats x) {
  const Ints small = x < all(1.17549435e-38f); // negative numbers and zero, too; not NaN
  const Floats scaled = small ? x * 8388608.0f : x;
  Floats found = log_of_normal(scaled) - (small ? all(15.9423851528787f) : Floats{});
  found = x < all(__builtin_inff()) ? found : x;
  found = x == all(0.0f) ? all(-__builtin_inff()) : found;
  return x < all(0.0f) ? all(__builtin_nanf("")) : found;
}

// log(1 + x) for x >= 0: what rounding took from 1 + x comes back.
LTA_INLINE Floats log1p_of_positive(Floats x) {
  const Floats sum = x + 1.0f;
  const Floats found = log_of_normal(sum) + (x - (sum - 1.0f)) / sum;
  return x < all(__builtin_inff()) ? found : x;
}

// sin(x + turns * pi / 2) for |x| <= 8192: pi / 2 in three parts, of which
// two give exact products, and Cephes's sinf and cosf of the rest. Errors below 1.0e-7.
LTA_INLINE Floats sine(Floats x, uint32_t turns) {
  const float round = 12582912.0f; // as in `reduced_exp`
  const Floats shifted = x * 0.636619772367581343f + round;
  const Floats whole = shifted - round;
  const Bits quarter = Bits(shifted) + turns;
  const Floats r =
      ((x - whole * 1.5703125f) - whole * 4.837512969970703125e-4f) - whole * 7.54978995489188216e-8f;
  const Floats s = r * r;
  Floats sin = s * -1.9515295891e-4f + 8.3321608736e-3f;
  sin = sin * s - 1.6666654611e-1f;
  sin = sin * s * r + r;
  Floats cos = s * 2.443315711809948e-5f - 1.388731625493765e-3f;
  cos = cos * s + 4.166664568298827e-2f;
  cos = cos * (s * s) + (1.0f - 0.5f * s);
  const Floats found = (quarter & 1u) != Bits{} ? cos : sin;
  return Floats(Bits(found) ^ ((quarter & 2u) << 30));
}

// Whether one of the lanes is beyond a limit, NaN not counted.
LTA_INLINE bool any_beyond(Floats x, float limit) {
  const Ints beyond = magnitude(x) > all(limit);
  int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    any |= beyond[lane];
  }
  return any != 0;
}

LTA_INLINE Floats sqrt(Floats x) {
#if defined(__has_builtin) && __has_builtin(__builtin_elementwise_sqrt)
  return __builtin_elementwise_sqrt(x);
#endif
  Floats found;
  for (int lane = 0; lane < kLanes; ++lane) {
    found[lane] = __builtin_sqrtf(x[lane]);
  }
  return found;
}

// To the nearest whole number, halves to the even one. From 2^23 on all floats are whole.
LTA_INLINE Floats round(Floats x) {
  const Floats t = magnitude(x);
  const Floats whole = (t + 8388608.0f) - 8388608.0f;
  return with_sign_of(t < all(8388608.0f) ? whole : t, x);
}

LTA_INLINE Floats floor(Floats x) {
  const Floats near = round(x);
  return with_sign_of(near > x ? near - 1.0f : near, x);
}

LTA_INLINE Floats ceil(Floats x) {
  const Floats near = round(x);
  return with_sign_of(near < x ? near + 1.0f : near, x);
}

LTA_INLINE Floats trunc(Floats x) { return with_sign_of(floor(magnitude(x)), x); }

// After N. Juffa's erff: 1 - exp(-t - ...) behind 475/512, an odd polynomial before.
LTA_INLINE Floats erf(Floats x) {
  Floats t = magnitude(x);
  const Floats s = x * x;
  Floats near = s * -5.96761703e-4f + 4.99119423e-3f;
  near = near * s + -2.67681349e-2f;
  near = near * s + 1.12819925e-1f;
  near = near * s + -3.76125336e-1f;
  near = near * s + 1.28379166e-1f;
  near = near * x + x;
  t = t > all(4.0f) ? all(4.0f) : t; // from 3.92 on a float's erf is one
  Floats far = t * -1.72853470e-5f + 3.83197126e-4f;
  far = far * (t * t) + (t * -3.88396438e-3f + 2.42546219e-2f);
  far = far * t + -1.06777877e-1f;
  far = far * t + -6.34846687e-1f;
  far = far * t + -1.28717512e-1f;
  far = 1.0f - exp_of_small(far * t - t);
  return t > all(0.927734375f) ? with_sign_of(far, x) : near;
}

// f of each of `count` floats.
template <class F>
LTA_INLINE void map(F f, const float* from, float* to, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    store(to + i, count - i, f(load(from + i, count - i, 0)));
  }
}

} // inline namespace
} // namespace maths

#if defined(__x86_64__)
#define LTA_WIDE __attribute__((target("avx2,fma")))
#ifdef LTA_WIDEST
#define LTA_AT_WIDEST(name, parameters, arguments)  \
  static LTA_WIDEST void name##_widest parameters { \
    name##_in_lanes arguments;                      \
  }
#define LTA_IF_WIDEST(name, arguments) has_widest_lanes() ? name##_widest arguments:
#else
#define LTA_AT_WIDEST(name, parameters, arguments)
#define LTA_IF_WIDEST(name, arguments)
#endif
// `name(arguments)` by `name_in_lanes`, which is LTA_INLINE, at the level of this processor.
#define LTA_LEVELS(name, parameters, arguments)                 \
  LTA_AT_WIDEST(name, parameters, arguments)                    \
  static LTA_WIDE void name##_wide parameters {                 \
    name##_in_lanes arguments;                                  \
  }                                                             \
  static void name##_narrow parameters {                        \
    name##_in_lanes arguments;                                  \
  }                                                             \
  void name parameters {                                        \
    LTA_IF_WIDEST(name, arguments)                              \
    has_wide_lanes() ? name##_wide arguments : name##_narrow arguments; \
  }
#else
#define LTA_LEVELS(name, parameters, arguments) \
  void name parameters {                        \
    name##_in_lanes arguments;                  \
  }
#endif

} // namespace lta
