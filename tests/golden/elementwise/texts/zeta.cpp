// ew::zeta, an elementwise operator, from apps/toy/kernels/zeta.elementwise
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
#line 8 "apps/toy/kernels/zeta.elementwise"
  template <typename T>
  T zeta(T in, T from) {
    const double least = 1.11022302462515654042E-16; // of 1, what counts
    const double x = in, q = from;
    if (x == 1) {
      return T(INFINITY);
    }
    if (x < 1) {
      return T(NAN);
    }
    if (q <= 0) {
      if (q == std::floor(q)) {
        return T(INFINITY);
      }
      if (x != std::floor(x)) {
        return T(NAN);
      }
    }
    // in float64, but for the first term
    double sum = std::pow(from, -in), a = q, b = 0;
    for (int i = 0; i < 9 || a <= 9; ++i) {
      a += 1;
      b = std::pow(a, -x);
      sum += b;
      if (-least * sum < b && b < least * sum) {
        return T(sum);
      }
    }
    const double w = a;
    sum += b * w / (x - 1);
    sum -= b / 2;
    // (2k)! / B(2k)
    static const double terms[] = {
        12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15,
        1.8152105401943546773e17, -7.1661652561756670113e18};
    double rising = 1, k = 0;
    for (const double term : terms) {
      rising *= x + k;
      b /= w;
      const double t = rising * b / term;
      sum += t;
      if (std::abs(t / sum) < least) {
        break;
      }
      k += 1;
      rising *= x + k;
      b /= w;
      k += 1;
    }
    return T(sum);
  }

#line 1 "<generated>"
} // namespace functor

// Half and BFloat16 are computed in float.
template <typename scalar_t, typename... Inputs>
scalar_t apply(Inputs... inputs) {
  using computed_t = at::opmath_type<scalar_t>;
  return static_cast<scalar_t>(
      functor::zeta<computed_t>(static_cast<computed_t>(inputs)...));
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
  config.promote_integer_inputs_to_float(true);
  return config.build();
}

at::Tensor compute(const at::Tensor& x0, const at::Tensor& x1) {
  auto iterator = iterator_of(x0, x1);
  AT_DISPATCH_SWITCH(
      iterator.dtype(), "ew_zeta",
      AT_DISPATCH_CASE(at::ScalarType::Float, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<2>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::Double, [&] {
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
  m.def("zeta(Tensor x0, Tensor x1) -> Tensor");
  m.def("zeta.Scalar(Tensor x0, Scalar x1) -> Tensor");
}

TORCH_LIBRARY_IMPL(ew, CPU, m) {
  m.impl("zeta", TORCH_FN(compute));
  m.impl("zeta.Scalar", TORCH_FN(compute_scalar));
}

#ifndef C10_MOBILE
TORCH_LIBRARY_IMPL(ew, Meta, m) {
  m.impl("zeta", TORCH_FN(shape));
  m.impl("zeta.Scalar", TORCH_FN(shape_scalar));
}
#endif

} // namespace
