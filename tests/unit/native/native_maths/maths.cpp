// What tests/unit/native/test_native_maths.py runs: our functions of rows, at the level that it chooses.
#include "activation.cpp"
#include "attention_rows.cpp"
#include "layer_norm.cpp"
#include "softmax.cpp"
#undef LTA_MAP
#include "unary.cpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

using Run = void (*)(const float* from, float* to, int64_t count);

struct Function {
  Run run;
  double (*exact)(double x);
  double least = 0x1p-126; // below it an error counts as there
};

void softplus_of_one(const float* from, float* to, int64_t count) {
  lta::softplus(from, to, count, 1, 20);
}

const Function functions[] = {
    {lta::exp, [](double x) { return std::exp(x); }},
    {lta::tanh, [](double x) { return std::tanh(x); }},
    {lta::erf, [](double x) { return std::erf(x); }},
    {lta::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {lta::log, [](double x) { return std::log(x); }},
    {lta::sqrt, [](double x) { return std::sqrt(x); }},
    {lta::rsqrt, [](double x) { return 1 / std::sqrt(x); }},
    {lta::reciprocal, [](double x) { return 1 / x; }},
    {lta::sin, [](double x) { return std::sin(x); }, 0.5},
    {lta::cos, [](double x) { return std::cos(x); }, 0.5},
    {lta::floor, [](double x) { return std::floor(x); }},
    {lta::ceil, [](double x) { return std::ceil(x); }},
    {lta::round, [](double x) { return std::nearbyint(x); }},
    {lta::trunc, [](double x) { return std::trunc(x); }},
    // where x is not so large or small that one of them is
    {softplus_of_one, [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }},
    {lta::mish,
     [](double x) { return std::isinf(x) && x < 0 ? NAN : x * std::tanh(std::log1p(std::exp(x))); },
     1e-35},
};

// In units in the last place of the result, or of `least` where that is larger; infinity where one
// is no number, or is infinite, and the other is not.
double error(float found, double exact, double least) {
  const double worst = std::numeric_limits<double>::infinity();
  if (std::isnan(found) || std::isnan(exact)) {
    return std::isnan(found) && std::isnan(exact) ? 0 : worst;
  }
  const double most = std::ldexp(2 - std::ldexp(1, -24), 127); // from here on a float is infinite
  if (std::isinf(found) || std::fabs(exact) >= most) {
    const bool near = std::fabs(exact) >= most * (1 - 1e-7);
    return std::isinf(found) == (std::fabs(exact) >= most) || near ? 0 : worst;
  }
  int exponent = 0;
  std::frexp(std::fmax(std::fabs(exact), least), &exponent);
  return std::fabs(found - exact) / std::ldexp(1, exponent - 24);
}

} // namespace

extern "C" {

void choose(int wide, int widest) { chosen = {wide != 0, wide != 0, false, widest != 0}; }

// The largest error over every `step`th float, and where it is.
double largest_error(int function, uint32_t step, float* at) {
  double largest = 0;
  float from[1021], to[1021];
  for (uint64_t bits = 0; bits < uint64_t(1) << 32;) {
    int count = 0;
    for (; count < 1021 && bits < uint64_t(1) << 32; ++count, bits += step) {
      const uint32_t one = uint32_t(bits);
      std::memcpy(from + count, &one, sizeof one);
    }
    functions[function].run(from, to, count);
    for (int i = 0; i < count; ++i) {
      const Function& one = functions[function];
      const double of = error(to[i], one.exact(double(from[i])), one.least);
      if (of > largest) {
        largest = of;
        *at = from[i];
      }
    }
  }
  return largest;
}

void softmax(const float* from, float* to, int64_t rows, int64_t size) {
  lta::softmax(from, to, rows, size);
}
void log_softmax(const float* from, float* to, int64_t rows, int64_t size) {
  lta::log_softmax(from, to, rows, size);
}
void softmax_of_columns(const float* from, float* to, int64_t count, int64_t size, int64_t apart) {
  lta::softmax_of_columns(from, to, count, size, apart);
}
void log_softmax_of_columns(const float* from, float* to, int64_t count, int64_t size,
                            int64_t apart) {
  lta::log_softmax_of_columns(from, to, count, size, apart);
}
void layer_norm(const float* from, float* to, int64_t size, const float* scale, const float* shift,
                float* mean, float* deviation) {
  lta::layer_norm(from, to, 1, size, 1e-5f, scale, shift, mean, deviation);
}
void one_by_one(int which, const float* from, float* to, int64_t count) {
  const Run all[] = {lta::gelu, lta::gelu_by_tanh, lta::silu};
  all[which](from, to, count);
}
void function(int which, const float* from, float* to, int64_t count) {
  functions[which].run(from, to, count);
}
void given(int which, const float* from, float* to, int64_t count) {
  switch (which) {
    case 0:
      return lta::hardsigmoid(from, to, count);
    case 1:
      return lta::hardswish(from, to, count);
    case 2:
      return lta::leaky_relu(from, to, count, 0.125f);
    case 3:
      return lta::softplus(from, to, count, 2, 3);
    default:
      return lta::elu(from, to, count, 3, 1.5f, 0.5f);
  }
}
void glu(const float* one, const float* other, float* to, int64_t count) {
  lta::glu(one, other, to, count);
}
// mask_key: 1 where each key has its own, 0 where all have one
void weigh(float* scores, int64_t queries, int64_t keys, int64_t seen, const float* mask,
           int64_t mask_row, int64_t mask_key, float* most, float* sum, float* kept) {
  lta::weigh({scores, queries, keys, seen, mask, mask_row, mask_key, most, sum, kept});
}
void scale_rows(float* to, int64_t apart, int64_t rows, int64_t size, const float* factors) {
  lta::scale_rows(to, apart, rows, size, factors);
}
}
