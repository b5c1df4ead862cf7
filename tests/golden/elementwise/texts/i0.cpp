// ew::i0, an elementwise operator, from apps/toy/kernels/i0.elementwise
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Load.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

namespace {

namespace functor {
using namespace std;
#line 7 "apps/toy/kernels/i0.elementwise"
  template <typename T>
  T i0(T in) {
    const double x = std::abs(double(in)), half = x / 2;
    const int order = 0;
    double sum, term;
    if (x <= 25) {
      sum = term = order ? half : 1;
      for (int k = 1; term > sum * 1e-17; ++k) {
        term *= half * half / (k * double(k + order));
        sum += term;
      }
      sum *= std::exp(0.0);
    } else {
      sum = term = 1;
      for (int k = 1; k < 30 && std::abs(term) > 1e-17; ++k) {
        term *= ((2 * k - 1) * double(2 * k - 1) - 4 * order) / (8 * k * x);
        sum += term;
      }
      sum *= std::exp(x) / std::sqrt(2 * 3.14159265358979323846 * x);
    }
    return T(order && in < 0 ? -sum : sum);
  }

#line 1 "<generated>"
} // namespace functor

// Half and BFloat16 are computed in float.
template <typename scalar_t, typename... Inputs>
scalar_t apply(Inputs... inputs) {
  using computed_t = at::opmath_type<scalar_t>;
  return static_cast<scalar_t>(
      functor::i0<computed_t>(static_cast<computed_t>(inputs)...));
}

// Without strides, so that a compiler can use vectors.
template <typename scalar_t, typename... Inputs>
void run_contiguous(int64_t count, scalar_t* out, const Inputs*... inputs) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = apply<scalar_t>(c10::load<scalar_t>(inputs + i)...);
  }
}

template <typename scalar_t, size_t... input>
void run(char** data, const int64_t* strides, int64_t count, std::index_sequence<input...>) {
  constexpr int64_t kSize = sizeof(scalar_t);
  if (strides[0] == kSize && ((strides[input + 1] == kSize) && ...)) {
    run_contiguous<scalar_t>(
        count,
        reinterpret_cast<scalar_t*>(data[0]),
        reinterpret_cast<const scalar_t*>(data[input + 1])...);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    *reinterpret_cast<scalar_t*>(data[0] + i * strides[0]) =
        apply<scalar_t>(c10::load<scalar_t>(data[input + 1] + i * strides[input + 1])...);
  }
}

// Shapes, dtypes, broadcasts and casts; an output that it allocates.
at::TensorIterator iterator_of(const at::Tensor& x0) {
  static const at::Tensor undefined;
  at::TensorIteratorConfig config;
  config.add_output(undefined);
  config.add_input(x0);
  config.promote_inputs_to_common_dtype(true)
      .cast_common_dtype_to_outputs(true)
      .enforce_safe_casting_to_output(true)
      .allow_cpu_scalars(true);
  config.promote_integer_inputs_to_float(true);
  return config.build();
}

at::Tensor compute(const at::Tensor& x0) {
  auto iterator = iterator_of(x0);
  AT_DISPATCH_SWITCH(
      iterator.dtype(), "ew_i0",
      AT_DISPATCH_CASE(at::ScalarType::Float, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<1>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Double, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<1>());
        });
      })
  );
  iterator.cast_outputs();
  return iterator.output();
}

// Of tensors without data, such as an exporter has; libraries for devices leave it out.
#ifndef C10_MOBILE
at::Tensor shape(const at::Tensor& x0) {
  return iterator_of(x0).output();
}
#endif

TORCH_LIBRARY_FRAGMENT(ew, m) {
  m.def("i0(Tensor x0) -> Tensor");
}

TORCH_LIBRARY_IMPL(ew, CPU, m) {
  m.impl("i0", TORCH_FN(compute));
}

#ifndef C10_MOBILE
TORCH_LIBRARY_IMPL(ew, Meta, m) {
  m.impl("i0", TORCH_FN(shape));
}
#endif

} // namespace
