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

} // namespace lta
