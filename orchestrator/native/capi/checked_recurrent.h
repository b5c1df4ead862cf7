// Read first by aten/src/ATen/native/RNN.cpp: asks whether gates, states and steps are there. Its cells
// cut a row of gates into four or three and take each of them; `lstm` takes a cell state for each hidden
// one, and a layer over packed sequences the size of the first batch. What a call has fewer of is read
// behind the end of a vector (CVE-2025-3001, and what is like it). See model_checks.h.
#pragma once

#include <ATen/ATen.h>
#include <ATen/NativeFunctions.h>
#include <ATen/native/RNN.h>

#include <vector>

namespace lta {

struct Pieces {
  int64_t count;
};

// The pieces that a tensor was cut into: as many as were asked for, if it was long enough.
inline std::vector<at::Tensor> operator%(std::vector<at::Tensor> cut, Pieces asked) {
  TORCH_CHECK(int64_t(cut.size()) == asked.count, "a recurrent layer's weights have too few rows");
  return cut;
}

// Stands for the sizes of batches in functions that have none.
struct NoSizes {};

inline void expect_steps(NoSizes) {}
inline void expect_steps(const at::Tensor& sizes) {
  TORCH_CHECK(sizes.numel() > 0, "a packed sequence has no steps");
}

inline void expect_states(const at::Tensor&) {}
inline void expect_states(at::TensorList states) {
  const bool same = states[0].dim() > 0 && states[1].dim() > 0 &&
      states[0].size(0) == states[1].size(0);
  TORCH_CHECK(same, "an LSTM has a cell state for each hidden one");
}

} // namespace lta

namespace at {
namespace native {
static constexpr ::lta::NoSizes batch_sizes{};
} // namespace native
} // namespace at

// In the cells.
#define unsafe_chunk(count, dim) unsafe_chunk(count, dim) % ::lta::Pieces{count}
// In lstm() and its like, where `hx` has the states. Where gather_params() itself is defined, its first
// parameter begins with TensorList.
#define LTA_TensorList TensorList
#define LTA__params (::lta::expect_states(hx), ::lta::expect_steps(batch_sizes), _params)
#define gather_params(params, ...) gather_params(LTA_##params, __VA_ARGS__)
