// ew::lcm, an elementwise operator, from apps/toy/kernels/lcm.elementwise
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
#line 6 "apps/toy/kernels/lcm.elementwise"
  template <typename T>
  T magnitude(T x) {
    return x < 0 ? T(-x) : x;
  }

  template <typename T>
  T common(T a, T b) {
    // without signs: the least number divided by -1 is more than the largest, which ends a process
    a = magnitude(a);
    b = magnitude(b);
    while (a != 0) {
      const T last = a;
      a = b % a;
      b = last;
    }
    return b;
  }

  template <typename T>
  T lcm(T a, T b) {
    const T divisor = common(a, b);
    if (divisor == 0) {
      return 0;
    }
    // of short numbers an int, which holds more
    const auto product = a / divisor * b;
    return T(product < 0 ? -product : product);
  }

#line 1 "<generated>"
} // namespace functor

// Half and BFloat16 are computed in float.
template <typename scalar_t, typename... Inputs>
scalar_t apply(Inputs... inputs) {
  using computed_t = at::opmath_type<scalar_t>;
  return static_cast<scalar_t>(
      functor::lcm<computed_t>(static_cast<computed_t>(inputs)...));
}

// Without strides and aliases, so that a compiler can use vectors.
template <typename scalar_t, typename... Inputs>
void run_contiguous(int64_t count, scalar_t* __restrict out, const Inputs* __restrict... inputs) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = apply<scalar_t>(c10::load<scalar_t>(inputs + i)...);
  }
}

// Elements that are not contiguous, and scalars, are copied so many bytes at once.
constexpr int64_t kBlockSize = 4096;

// `count` elements of an input from element `start` on: where they are, or a copy of them.
template <typename scalar_t>
const scalar_t* gathered(
    const char* data, int64_t stride, int64_t start, int64_t count, scalar_t* block) {
  if (stride == sizeof(scalar_t)) {
    return reinterpret_cast<const scalar_t*>(data) + start;
  }
  if (stride != 0 || start == 0) {
    for (int64_t i = 0; i < count; ++i) {
      block[i] = c10::load<scalar_t>(data + (start + i) * stride);
    }
  }
  return block;
}

template <typename scalar_t, size_t... input>
void run(char** data, const int64_t* strides, int64_t count, std::index_sequence<input...>) {
  constexpr int64_t kSize = sizeof(scalar_t), kBlock = kBlockSize / kSize;
  const bool written = strides[0] == kSize;
  const int64_t most = written && ((strides[input + 1] == kSize) && ...) ? count : kBlock;
  scalar_t blocks[sizeof...(input) + 1][kBlock];
  for (int64_t start = 0; start < count; start += most) {
    const int64_t now = std::min(most, count - start);
    run_contiguous<scalar_t>(
        now,
        written ? reinterpret_cast<scalar_t*>(data[0]) + start : blocks[0],
        gathered(data[input + 1], strides[input + 1], start, now, blocks[input + 1])...);
    for (int64_t i = 0; !written && i < now; ++i) {
      *reinterpret_cast<scalar_t*>(data[0] + (start + i) * strides[0]) = blocks[0][i];
    }
  }
}

// Shapes, dtypes, broadcasts and casts; an output that it allocates.
at::TensorIterator iterator_of(const at::Tensor& x0, const at::Tensor& x1) {
  static const at::Tensor undefined;
  at::TensorIteratorConfig config;
  config.add_output(undefined);
  config.add_input(x0);
  config.add_input(x1);
  config.promote_inputs_to_common_dtype(true)
      .cast_common_dtype_to_outputs(true)
      .enforce_safe_casting_to_output(true)
      .allow_cpu_scalars(true);
  return config.build();
}

at::Tensor compute(const at::Tensor& x0, const at::Tensor& x1) {
  auto iterator = iterator_of(x0, x1);
  AT_DISPATCH_SWITCH(
      iterator.dtype(), "ew_lcm",
      AT_DISPATCH_CASE(at::ScalarType::Byte, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Char, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Short, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Int, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Long, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
  );
  iterator.cast_outputs();
  return iterator.output();
}

at::Tensor compute_scalar(const at::Tensor& x0, const at::Scalar& x1) {
  return compute(x0, at::native::wrapped_scalar_tensor(x1));
}

// Of tensors without data, such as an exporter has; libraries for devices leave it out.
#ifndef C10_MOBILE
at::Tensor shape(const at::Tensor& x0, const at::Tensor& x1) {
  return iterator_of(x0, x1).output();
}

at::Tensor shape_scalar(const at::Tensor& x0, const at::Scalar& x1) {
  return shape(x0, at::native::wrapped_scalar_tensor(x1));
}
#endif

TORCH_LIBRARY_FRAGMENT(ew, m) {
  m.def("lcm(Tensor x0, Tensor x1) -> Tensor");
  m.def("lcm.Scalar(Tensor x0, Scalar x1) -> Tensor");
}

TORCH_LIBRARY_IMPL(ew, CPU, m) {
  m.impl("lcm", TORCH_FN(compute));
  m.impl("lcm.Scalar", TORCH_FN(compute_scalar));
}

#ifndef C10_MOBILE
TORCH_LIBRARY_IMPL(ew, Meta, m) {
  m.impl("lcm", TORCH_FN(shape));
  m.impl("lcm.Scalar", TORCH_FN(shape_scalar));
}
#endif

} // namespace
