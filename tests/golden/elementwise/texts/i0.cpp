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
#line 8 "apps/toy/kernels/i0.elementwise"
  // Chebyshev's polynomials at x / 2, Clenshaw's way; the term of order 0 is the last.
  template <typename T>
  T series(T x, const T* terms, int count) {
    T b0 = terms[0], b1 = 0, b2 = 0;
    for (int i = 1; i < count; ++i) {
      b2 = b1;
      b1 = b0;
      b0 = x * b1 - b2 + terms[i];
    }
    return T(0.5) * (b0 - b2);
  }

  template <typename T>
  T i0(T in) {
    // in 0 to 8
    static const T near[] = {
        T(-4.41534164647933937950E-18), T(3.33079451882223809783E-17),
        T(-2.43127984654795469359E-16), T(1.71539128555513303061E-15),
        T(-1.16853328779934516808E-14), T(7.67618549860493561688E-14),
        T(-4.85644678311192946090E-13), T(2.95505266312963983461E-12),
        T(-1.72682629144155570723E-11), T(9.67580903537323691224E-11),
        T(-5.18979560163526290666E-10), T(2.65982372468238665035E-9),
        T(-1.30002500998624804212E-8), T(6.04699502254191894932E-8),
        T(-2.67079385394061173391E-7), T(1.11738753912010371815E-6),
        T(-4.41673835845875056359E-6), T(1.64484480707288970893E-5),
        T(-5.75419501008210370398E-5), T(1.88502885095841655729E-4),
        T(-5.76375574538582365885E-4), T(1.63947561694133579842E-3),
        T(-4.32430999505057594430E-3), T(1.05464603945949983183E-2),
        T(-2.37374148058994688156E-2), T(4.93052842396707084878E-2),
        T(-9.49010970480476444210E-2), T(1.71620901522208775349E-1),
        T(-3.04682672343198398683E-1), T(6.76795274409476084995E-1)};
    // beyond, of 1 / x
    static const T far[] = {
        T(-7.23318048787475395456E-18), T(-4.83050448594418207126E-18),
        T(4.46562142029675999901E-17), T(3.46122286769746109310E-17),
        T(-2.82762398051658348494E-16), T(-3.42548561967721913462E-16),
        T(1.77256013305652638360E-15), T(3.81168066935262242075E-15),
        T(-9.55484669882830764870E-15), T(-4.15056934728722208663E-14),
        T(1.54008621752140982691E-14), T(3.85277838274214270114E-13),
        T(7.18012445138366623367E-13), T(-1.79417853150680611778E-12),
        T(-1.32158118404477131188E-11), T(-3.14991652796324136454E-11),
        T(1.18891471078464383424E-11), T(4.94060238822496958910E-10),
        T(3.39623202570838634515E-9), T(2.26666899049817806459E-8),
        T(2.04891858946906374183E-7), T(2.89137052083475648297E-6),
        T(6.88975834691682398426E-5), T(3.36911647825569408990E-3),
        T(8.04490411014108831608E-1)};
    // float has no use for the smallest
    const int less = sizeof(T) == sizeof(float) ? 11 : 0;
    const int far_less = sizeof(T) == sizeof(float) ? 18 : 0;
    const T x = std::abs(in);
    if (x <= 8) {
      const T sum = series(x / 2 - 2, near + less, 30 - less);
      return std::exp(x) * sum;
    }
    const T sum = series(32 / x - 2, far + far_less, 25 - far_less);
    return std::exp(x) * sum / std::sqrt(x);
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
      AT_DISPATCH_CASE(at::ScalarType::Half, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<1>());
        });
      })
      AT_DISPATCH_CASE(at::ScalarType::BFloat16, [&] {
        iterator.for_each([](char** data, const int64_t* strides, int64_t count) {
          run<scalar_t>(data, strides, count, std::make_index_sequence<1>());
        });
      })
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
