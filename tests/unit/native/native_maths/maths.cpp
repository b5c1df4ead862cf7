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
};

const Function functions[] = {
    {lta::exp, [](double x) { return std::exp(x); }},
    {lta::tanh, [](double x) { return std::tanh(x); }},
    {lta::erf, [](double x) { return std::erf(x); }},
    {lta::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
};

// In units in the last place of the result, at least of the least normal number; infinity where one
// is no number, or is infinite, and the other is not.
double error(float found, double exact) {
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
  std::frexp(std::fmax(std::fabs(exact), 1.17549435e-38), &exponent);
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
      const double of = error(to[i], functions[function].exact(double(from[i])));
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
void layer_norm(const float* from, float* to, int64_t size, const float* scale, const float* shift,
                float* mean, float* deviation) {
  lta::layer_norm(from, to, 1, size, 1e-5f, scale, shift, mean, deviation);
}
void one_by_one(int which, const float* from, float* to, int64_t count) {
  const Run all[] = {lta::gelu, lta::gelu_by_tanh, lta::silu};
  all[which](from, to, count);
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
