// Functions of rows of floats; `from` and `to` may be the same memory.
#pragma once

#include <cstdint>

namespace lta {

// Each of `rows` rows of `size` numbers, side by side.
void softmax(const float* from, float* to, int64_t rows, int64_t size);
void log_softmax(const float* from, float* to, int64_t rows, int64_t size);

// Each of `count` columns of `size` numbers, `apart` from each other.
void softmax_of_columns(const float* from, float* to, int64_t count, int64_t size, int64_t apart);
void log_softmax_of_columns(const float* from, float* to, int64_t count, int64_t size,
                            int64_t apart);

// Normalises each row; `scale` and `shift` have `size` numbers, `mean` and `deviation` (one over it)
// one for each row: any of the four may be null.
void layer_norm(const float* from, float* to, int64_t rows, int64_t size, float epsilon,
                const float* scale, const float* shift, float* mean, float* deviation);

// Each of `count` numbers.
void gelu(const float* from, float* to, int64_t count);
void gelu_by_tanh(const float* from, float* to, int64_t count);
void silu(const float* from, float* to, int64_t count);
void hardsigmoid(const float* from, float* to, int64_t count);
void hardswish(const float* from, float* to, int64_t count);
void mish(const float* from, float* to, int64_t count);
// Below zero times `slope`.
void leaky_relu(const float* from, float* to, int64_t count, float slope);
// log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.
void softplus(const float* from, float* to, int64_t count, float beta, float threshold);
// x * above; up to zero (exp(x * factor) - 1) * below.
void elu(const float* from, float* to, int64_t count, float below, float above, float factor);
void sigmoid(const float* from, float* to, int64_t count);
void tanh(const float* from, float* to, int64_t count);
void exp(const float* from, float* to, int64_t count);
void erf(const float* from, float* to, int64_t count);
void log(const float* from, float* to, int64_t count);
void sin(const float* from, float* to, int64_t count);
void cos(const float* from, float* to, int64_t count);
void sqrt(const float* from, float* to, int64_t count);
void rsqrt(const float* from, float* to, int64_t count);
void reciprocal(const float* from, float* to, int64_t count);
void floor(const float* from, float* to, int64_t count);
void ceil(const float* from, float* to, int64_t count);
void round(const float* from, float* to, int64_t count);
void trunc(const float* from, float* to, int64_t count);

// one times the sigmoid of the other, of each of `count` numbers.
void glu(const float* one, const float* other, float* to, int64_t count);

// one + other * factor, of each of `count` numbers.
void add(const float* one, const float* other, float factor, float* to, int64_t count);

} // namespace lta
