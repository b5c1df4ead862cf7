// Functions of rows of floats over PyTorch's iterators.
#pragma once

#include <algorithm>

#include <ATen/native/TensorIterator.h>

#include "rows.h"

namespace lta {

// One result of one argument, both floats.
inline void run_on_floats(at::TensorIteratorBase& iter,
                          void (*run)(const float* from, float* to, int64_t count)) {
  TORCH_INTERNAL_ASSERT(iter.ntensors() == 2 && iter.dtype(0) == at::kFloat &&
                        iter.dtype(1) == at::kFloat);
  iter.for_each([run](char** data, const int64_t* strides, int64_t count) {
    const int64_t side_by_side = sizeof(float);
    if (strides[0] == side_by_side && strides[1] == side_by_side) {
      run(reinterpret_cast<const float*>(data[1]), reinterpret_cast<float*>(data[0]), count);
      return;
    }
    float some[64];
    for (int64_t done = 0; done < count;) {
      const int64_t now = std::min<int64_t>(64, count - done);
      for (int64_t i = 0; i < now; ++i) {
        some[i] = *reinterpret_cast<const float*>(data[1] + (done + i) * strides[1]);
      }
      run(some, some, now);
      for (int64_t i = 0; i < now; ++i) {
        *reinterpret_cast<float*>(data[0] + (done + i) * strides[0]) = some[i];
      }
      done += now;
    }
  });
  iter.cast_outputs();
}

// The next of an argument's floats: where they lie, or what was copied of them to `some`.
inline Operand next_floats(const char* from, int64_t stride, int64_t count, float* some) {
  if (stride == sizeof(float) || stride == 0) {
    return {reinterpret_cast<const float*>(from), stride == 0};
  }
  for (int64_t i = 0; i < count; ++i) {
    some[i] = *reinterpret_cast<const float*>(from + i * stride);
  }
  return {some, false};
}

// A row of a sum of two arguments, the second times `factor`: see `add_floats`.
inline void add_row(char* to, const char* one, const char* other, const int64_t* strides,
                    float factor, int64_t count) {
  const bool in_place = strides[0] == sizeof(float);
  const auto beside = [](int64_t stride) { return stride == sizeof(float) || stride == 0; };
  const int64_t most = in_place && beside(strides[1]) && beside(strides[2]) ? count : 64;
  float results[64], ones[64], others[64];
  for (int64_t done = 0; done < count; done += most) {
    const int64_t now = std::min(most, count - done);
    char* place = to + done * strides[0];
    float* sums = in_place ? reinterpret_cast<float*>(place) : results;
    add(next_floats(one + done * strides[1], strides[1], now, ones),
        next_floats(other + done * strides[2], strides[2], now, others), factor, sums, now);
    for (int64_t i = 0; !in_place && i < now; ++i) {
      *reinterpret_cast<float*>(place + i * strides[0]) = sums[i];
    }
  }
}

// A sum of two arguments, the second times `factor`; all three are floats.
inline void add_floats(at::TensorIteratorBase& iter, float factor) {
  TORCH_INTERNAL_ASSERT(iter.ntensors() == 3 && iter.common_dtype() == at::kFloat);
  iter.for_each(
      [factor](char** data, const int64_t* strides, int64_t count, int64_t rows) {
        const int64_t* next = strides + 3;
        for (int64_t row = 0; row < rows; ++row) {
          add_row(data[0] + row * next[0], data[1] + row * next[1], data[2] + row * next[2],
                  strides, factor, count);
        }
      });
  iter.cast_outputs();
}

} // namespace lta
