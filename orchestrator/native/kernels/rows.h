// Functions of rows of floats; `from` and `to` may be the same memory.
#pragma once

#include <cstdint>

namespace lta {

// Each of `rows` rows of `size` numbers, side by side.
void softmax(const float* from, float* to, int64_t rows, int64_t size);
void log_softmax(const float* from, float* to, int64_t rows, int64_t size);

// Normalises each row; `scale` and `shift` have `size` numbers, `mean` and `deviation` (one over it)
// one for each row: any of the four may be null.
void layer_norm(const float* from, float* to, int64_t rows, int64_t size, float epsilon,
                const float* scale, const float* shift, float* mean, float* deviation);

// Each of `count` numbers.
void gelu(const float* from, float* to, int64_t count);
void gelu_by_tanh(const float* from, float* to, int64_t count);
void silu(const float* from, float* to, int64_t count);
void sigmoid(const float* from, float* to, int64_t count);
void tanh(const float* from, float* to, int64_t count);
void exp(const float* from, float* to, int64_t count);
void erf(const float* from, float* to, int64_t count);

// one + other * factor, of each of `count` numbers.
void add(const float* one, const float* other, float factor, float* to, int64_t count);

} // namespace lta
