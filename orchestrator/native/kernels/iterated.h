// Functions of rows of floats over PyTorch's iterators.
#pragma once

#include <algorithm>
#include <cstring>

#include <ATen/native/TensorIterator.h>

#include "rows.h"

namespace lta {

// A function of a row, and of a pair of rows.
using Row = c10::function_ref<void(const float* from, float* to, int64_t count)>;
using Pair =
    c10::function_ref<void(const float* one, const float* other, float* to, int64_t count)>;

// One result of one argument, both floats.
inline void run_on_floats(at::TensorIteratorBase& iter, Row run) {
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

// Floats that lie apart, or are to.
__attribute__((noinline, minsize)) inline void copy_apart(const char* from, int64_t stride, char* to,
                                                          int64_t to_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * stride, sizeof(float));
  }
}

// A row of `run_on_pairs`: in parts where floats lie apart, of which one for all is copied once.
__attribute__((minsize, noinline)) inline void run_pair(Pair run, char* const* data,
                                                        const int64_t* strides, int64_t count) {
  constexpr int64_t kPart = 256, kFloat = sizeof(float);
  const bool whole = strides[0] == kFloat && strides[1] == kFloat && strides[2] == kFloat;
  float copies[3][kPart];
  const int64_t most = whole ? count : kPart;
  for (int64_t done = 0; done < count; done += most) {
    const int64_t now = std::min(most, count - done);
    float* floats[3];
    for (int i = 0; i < 3; ++i) {
      char* const place = data[i] + done * strides[i];
      const bool apart = strides[i] != kFloat;
      floats[i] = apart ? copies[i] : reinterpret_cast<float*>(place);
      if (apart && i > 0 && (strides[i] != 0 || done == 0)) {
        copy_apart(place, strides[i], reinterpret_cast<char*>(copies[i]), kFloat,
                   strides[i] == 0 ? kPart : now);
      }
    }
    run(floats[1], floats[2], floats[0], now);
    if (floats[0] == copies[0]) {
      copy_apart(reinterpret_cast<const char*>(copies[0]), kFloat, data[0] + done * strides[0],
                 strides[0], now);
    }
  }
}

// One result of two arguments; all three are floats.
inline void run_on_pairs(at::TensorIteratorBase& iter, Pair run) {
  TORCH_INTERNAL_ASSERT(iter.ntensors() == 3 && iter.common_dtype() == at::kFloat);
  iter.for_each([run](char** data, const int64_t* strides, int64_t count, int64_t rows) {
    char* places[3] = {data[0], data[1], data[2]};
    for (int64_t row = 0; row < rows; ++row) {
      run_pair(run, places, strides, count);
      for (int i = 0; i < 3; ++i) {
        places[i] += strides[3 + i];
      }
    }
  });
  iter.cast_outputs();
}

} // namespace lta
