// Discrete Fourier transforms behind the names that PyTorch calls of pocketfft
// (ATen/native/mkl/SpectralOps.cpp): c2c, r2c and c2r over some axes of a strided array.
//
// A line of n numbers is transformed in steps of radix 4, 2, 3, 5 or any prime up to 31 (Stockham's,
// which needs no reordering); where n has a larger prime, as a convolution of a power of two
// (L. Bluestein, "A linear filtering approach to the computation of discrete Fourier transform",
// 1970). Several lines go at once, one in each lane of a vector. Roots of unity are computed in double
// precision; those of short lines are kept.
//
// Strides are in bytes. No size is checked here but for emptiness: see enabled.h.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace pocketfft {

using shape_t = std::vector<size_t>;
using stride_t = std::vector<ptrdiff_t>;

namespace detail {

constexpr size_t kLargestRadix = 31;
// Plans of longer lines are made for each call, which takes many times as long.
constexpr size_t kLongestKept = 8192;
constexpr size_t kKept = 8;

// 16 bytes: what every processor has.
template <class T>
struct LanesOf;
template <>
struct LanesOf<float> {
  typedef float type __attribute__((vector_size(16)));
};
template <>
struct LanesOf<double> {
  typedef double type __attribute__((vector_size(16)));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
template <class T>
constexpr size_t kLanes = sizeof(Lanes<T>) / sizeof(T);

// A complex number in each lane.
template <class T>
struct Numbers {
  Lanes<T> re, im;
};

template <class T>
struct Root {
  T re, im;
};

template <class T>
inline Numbers<T> operator+(const Numbers<T>& a, const Numbers<T>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
inline Numbers<T> operator-(const Numbers<T>& a, const Numbers<T>& b) {
  return {a.re - b.re, a.im - b.im};
}
template <class T>
inline Numbers<T> operator*(const Numbers<T>& a, const Root<T>& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T>
inline Root<T> conj(const Root<T>& a) {
  return {a.re, -a.im};
}
// By -i, which is where a forward transform turns to.
template <class T>
inline Numbers<T> turned(const Numbers<T>& a) {
  return {a.im, -a.re};
}
template <class T>
inline Numbers<T> swapped(const Numbers<T>& a) {
  return {a.im, a.re};
}

// exp(-2 pi i k / n) for k < n, by an angle of at most an eighth of a circle.
template <class T>
inline Root<T> root(uint64_t k, uint64_t n) {
  const double pi = 3.14159265358979323846264338327950288;
  const uint64_t eighths = 8 * k;
  const uint64_t octant = eighths / n;
  const uint64_t rest = octant & 1 ? (octant + 1) * n - eighths : eighths - octant * n;
  const double angle = pi / 4 * (double(rest) / double(n));
  const double c = std::cos(angle), s = std::sin(angle);
  double re = 0, im = 0;
  switch (octant) {
    case 0: re = c, im = s; break;
    case 1: re = s, im = c; break;
    case 2: re = -s, im = c; break;
    case 3: re = -c, im = s; break;
    case 4: re = -c, im = -s; break;
    case 5: re = -s, im = -c; break;
    case 6: re = s, im = -c; break;
    default: re = c, im = -s; break;
  }
  return {T(re), T(-im)};
}

template <class T>
std::vector<Root<T>> roots(size_t count, size_t n) {
  std::vector<Root<T>> found(count);
  for (size_t k = 0; k < count; ++k) {
    found[k] = root<T>(k, n);
  }
  return found;
}

// How a line of n complex numbers is transformed forward. An inverse transform is a forward one of
// numbers whose parts are swapped.
template <class T>
class Plan {
 public:
  explicit Plan(size_t n) : n_(n) {
    size_t left = n;
    while (left % 4 == 0) {
      radices_.push_back(4);
      left /= 4;
    }
    for (size_t radix = 2; radix <= kLargestRadix; ++radix) {
      while (left % radix == 0) {
        radices_.push_back(radix);
        left /= radix;
      }
    }
    if (left == 1) {
      roots_ = roots<T>(n, n);
      return;
    }
    size_t power = 1;
    while (power < 2 * n - 1) {
      power *= 2;
    }
    inner_ = std::make_unique<Plan>(power);
    chirp_.resize(n);
    std::vector<Numbers<T>> filter(power), scratch(power);
    for (size_t k = 0, square = 0; k < n; ++k) {
      chirp_[k] = root<T>(square, 2 * n);
      // (k + 1)^2 = k^2 + 2 k + 1, modulo the circle
      square = (square + 2 * k + 1) % (2 * n);
      const Numbers<T> one = Numbers<T>{Lanes<T>{} + T(1), Lanes<T>{}} * conj(chirp_[k]);
      filter[k] = one;
      filter[k == 0 ? 0 : power - k] = one;
    }
    inner_->forward(filter.data(), scratch.data());
    filter_.resize(power);
    for (size_t k = 0; k < power; ++k) {
      filter_[k] = {filter[k].re[0] / T(power), filter[k].im[0] / T(power)};
    }
  }

  size_t length() const { return n_; }
  // Numbers besides those of the line itself that a transform needs.
  size_t scratch() const { return inner_ ? 2 * inner_->n_ : n_; }

  // In place; `scratch` has scratch() numbers.
  void forward(Numbers<T>* line, Numbers<T>* scratch) const {
    if (inner_) {
      convolve(line, scratch);
      return;
    }
    Numbers<T>*from = line, *to = scratch;
    size_t done = 1;
    for (size_t radix : radices_) {
      step(radix, done, from, to);
      done *= radix;
      std::swap(from, to);
    }
    if (from != line) {
      for (size_t k = 0; k < n_; ++k) {
        line[k] = from[k];
      }
    }
  }

 private:
  void step(size_t radix, size_t done, const Numbers<T>* from, Numbers<T>* to) const {
    const size_t rest = n_ / done / radix; // lines of this length are left
    for (size_t q = 0; q < rest; ++q) {
      for (size_t r = 0; r < done; ++r) {
        const Numbers<T>* const in = from + r + done * q;
        Numbers<T>* const out = to + r + done * radix * q;
        butterfly(radix, in, done * rest, out, done);
        for (size_t j = 1; q != 0 && j < radix; ++j) {
          out[done * j] = out[done * j] * roots_[done * j * q];
        }
      }
    }
  }

  // The transform of `radix` numbers.
  void butterfly(size_t radix, const Numbers<T>* in, size_t apart, Numbers<T>* out,
                 size_t out_apart) const {
    const Numbers<T> a = in[0], b = in[apart];
    if (radix == 2) {
      out[0] = a + b;
      out[out_apart] = a - b;
      return;
    }
    const Numbers<T> c = in[2 * apart];
    if (radix == 4) {
      const Numbers<T> d = in[3 * apart];
      const Numbers<T> even = a + c, odd = b + d, left = a - c, right = turned(b - d);
      out[0] = even + odd;
      out[out_apart] = left + right;
      out[2 * out_apart] = even - odd;
      out[3 * out_apart] = left - right;
      return;
    }
    // Pairs of numbers as far from both ends give pairs of results.
    const size_t pairs = (radix - 1) / 2, turn = n_ / radix;
    Numbers<T> sums[kLargestRadix / 2], differences[kLargestRadix / 2], all = a;
    for (size_t k = 0; k < pairs; ++k) {
      const Numbers<T> low = in[(k + 1) * apart], high = in[(radix - 1 - k) * apart];
      sums[k] = low + high;
      differences[k] = turned(low - high);
      all = all + sums[k];
    }
    out[0] = all;
    for (size_t j = 1; j <= pairs; ++j) {
      Numbers<T> same = a, other = {Lanes<T>{}, Lanes<T>{}};
      size_t at = 0;
      for (size_t k = 0; k < pairs; ++k) {
        at += j;
        at -= at >= radix ? radix : 0;
        const Root<T> by = roots_[at * turn];
        same = same + Numbers<T>{sums[k].re * by.re, sums[k].im * by.re};
        other = other - Numbers<T>{differences[k].re * by.im, differences[k].im * by.im};
      }
      out[j * out_apart] = same + other;
      out[(radix - j) * out_apart] = same - other;
    }
  }

  void convolve(Numbers<T>* line, Numbers<T>* scratch) const {
    const size_t power = inner_->n_;
    Numbers<T>* const wide = scratch;
    for (size_t k = 0; k < power; ++k) {
      wide[k] = k < n_ ? line[k] * chirp_[k] : Numbers<T>{Lanes<T>{}, Lanes<T>{}};
    }
    inner_->forward(wide, scratch + power);
    for (size_t k = 0; k < power; ++k) {
      wide[k] = swapped(wide[k] * filter_[k]);
    }
    inner_->forward(wide, scratch + power);
    for (size_t k = 0; k < n_; ++k) {
      line[k] = swapped(wide[k]) * chirp_[k];
    }
  }

  size_t n_;
  std::vector<size_t> radices_;
  std::vector<Root<T>> roots_;
  std::unique_ptr<Plan> inner_; // Bluestein's convolution
  std::vector<Root<T>> chirp_, filter_;
};

// How a line of n real numbers is: as n / 2 complex ones where n is even.
template <class T>
class RealPlan {
 public:
  explicit RealPlan(size_t n)
      : turns(roots<T>(n % 2 == 0 ? n / 2 + 1 : 0, n)), complex(n % 2 == 0 ? n / 2 : n), n_(n) {}

  size_t length() const { return n_; }

  const std::vector<Root<T>> turns;
  const Plan<T> complex;

 private:
  size_t n_;
};

template <class P>
std::shared_ptr<const P> plan_of(size_t n) {
  static std::mutex lock;
  static std::shared_ptr<const P> kept[kKept];
  static size_t next;
  if (n > kLongestKept) {
    return std::make_shared<const P>(n);
  }
  {
    std::lock_guard<std::mutex> guard(lock);
    for (const auto& plan : kept) {
      if (plan && plan->length() == n) {
        return plan;
      }
    }
  }
  auto plan = std::make_shared<const P>(n);
  std::lock_guard<std::mutex> guard(lock);
  return kept[next++ % kKept] = plan;
}

// Calls `each` with the offsets of up to kLanes lines along `axis` in two arrays, until all had
// their turn.
template <class T, class Each>
void over_lines(const shape_t& shape, size_t axis, const stride_t& in, const stride_t& out,
                Each each) {
  size_t lines = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    lines *= d == axis ? 1 : shape[d];
  }
  shape_t at(shape.size(), 0);
  ptrdiff_t from[kLanes<T>], to[kLanes<T>], from_next = 0, to_next = 0;
  for (size_t line = 0, count = 0; line < lines; ++line) {
    from[count] = from_next;
    to[count] = to_next;
    if (++count == kLanes<T> || line + 1 == lines) {
      each(count, from, to);
      count = 0;
    }
    for (size_t d = shape.size(); d-- > 0;) {
      if (d == axis) {
        continue;
      }
      from_next += in[d];
      to_next += out[d];
      if (++at[d] < shape[d]) {
        break;
      }
      from_next -= ptrdiff_t(shape[d]) * in[d];
      to_next -= ptrdiff_t(shape[d]) * out[d];
      at[d] = 0;
    }
  }
}

template <class E, class A>
inline E& at(A* array, ptrdiff_t bytes) {
  using Byte = typename std::conditional<std::is_const<E>::value, const char, char>::type;
  return *reinterpret_cast<E*>(reinterpret_cast<Byte*>(array) + bytes);
}

inline bool is_empty(const shape_t& shape) {
  for (size_t size : shape) {
    if (size == 0) {
      return true;
    }
  }
  return false;
}

} // namespace detail

template <class T>
void c2c(const shape_t& shape, const stride_t& in_strides, const stride_t& out_strides,
         const shape_t& axes, bool forward, const std::complex<T>* in, std::complex<T>* out, T by) {
  using namespace detail;
  if (is_empty(shape)) {
    return;
  }
  std::vector<Numbers<T>> memory;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i], n = shape[axis];
    const auto plan = plan_of<Plan<T>>(n);
    memory.assign(n + plan->scratch(), {});
    Numbers<T>* const line = memory.data();
    // The first axis goes from array to array, the others where they are.
    const std::complex<T>* const from = i == 0 ? in : out;
    const stride_t& strides = i == 0 ? in_strides : out_strides;
    const T scale = i == 0 ? by : T(1);
    over_lines<T>(shape, axis, strides, out_strides,
                  [&](size_t count, const ptrdiff_t* source, const ptrdiff_t* target) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t l = 0; l < count; ++l) {
          const auto one = at<const std::complex<T>>(from, source[l] + ptrdiff_t(k) * strides[axis]);
          line[k].re[l] = (forward ? one.real() : one.imag()) * scale;
          line[k].im[l] = (forward ? one.imag() : one.real()) * scale;
        }
      }
      plan->forward(line, line + n);
      for (size_t k = 0; k < n; ++k) {
        for (size_t l = 0; l < count; ++l) {
          const T re = line[k].re[l], im = line[k].im[l];
          at<std::complex<T>>(out, target[l] + ptrdiff_t(k) * out_strides[axis]) =
              forward ? std::complex<T>(re, im) : std::complex<T>(im, re);
        }
      }
    });
  }
}

// Along the last of `axes` real numbers become half as many complex ones and one more.
template <class T>
void r2c(const shape_t& shape, const stride_t& in_strides, const stride_t& out_strides,
         const shape_t& axes, bool forward, const T* in, std::complex<T>* out, T by) {
  using namespace detail;
  if (is_empty(shape)) {
    return;
  }
  const size_t axis = axes.back(), n = shape[axis], half = n / 2;
  const bool even = n % 2 == 0;
  const auto plans = plan_of<RealPlan<T>>(n);
  const Plan<T>& plan = plans->complex;
  const auto& turns = plans->turns;
  const size_t length = plan.length();
  std::vector<Numbers<T>> memory(length + plan.scratch());
  Numbers<T>* const line = memory.data();
  over_lines<T>(shape, axis, in_strides, out_strides,
                [&](size_t count, const ptrdiff_t* source, const ptrdiff_t* target) {
    for (size_t k = 0; k < length; ++k) {
      line[k].im = Lanes<T>{};
    }
    for (size_t k = 0; k < n; ++k) {
      Lanes<T>& part = !even ? line[k].re : k % 2 == 0 ? line[k / 2].re : line[k / 2].im;
      for (size_t l = 0; l < count; ++l) {
        part[l] = at<const T>(in, source[l] + ptrdiff_t(k) * in_strides[axis]) * by;
      }
    }
    plan.forward(line, line + length);
    for (size_t k = 0; k <= half; ++k) {
      Numbers<T> one = line[even && k == half ? 0 : k];
      if (even) {
        // what the even numbers give, and the odd ones
        Numbers<T> mirrored = line[k == 0 ? 0 : half - k];
        mirrored.im = -mirrored.im;
        const Numbers<T> evens = one + mirrored, odds = turned(one - mirrored) * turns[k];
        one = {(evens.re + odds.re) * T(0.5), (evens.im + odds.im) * T(0.5)};
      }
      for (size_t l = 0; l < count; ++l) {
        at<std::complex<T>>(out, target[l] + ptrdiff_t(k) * out_strides[axis]) = {
            one.re[l], forward ? one.im[l] : -one.im[l]};
      }
    }
  });
  if (axes.size() > 1) {
    shape_t narrow = shape;
    narrow[axis] = half + 1;
    c2c<T>(narrow, out_strides, out_strides, shape_t(axes.begin(), axes.end() - 1), forward, out,
           out, T(1));
  }
}

// `shape` is of the real numbers: the inverse of r2c.
template <class T>
void c2r(const shape_t& shape, const stride_t& in_strides, const stride_t& out_strides,
         const shape_t& axes, bool forward, const std::complex<T>* in, T* out, T by) {
  using namespace detail;
  if (is_empty(shape)) {
    return;
  }
  const size_t axis = axes.back(), n = shape[axis], half = n / 2;
  std::vector<std::complex<T>> between;
  stride_t strides = in_strides;
  if (axes.size() > 1) {
    shape_t narrow = shape;
    narrow[axis] = half + 1;
    size_t count = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      strides[d] = ptrdiff_t(count * sizeof(std::complex<T>));
      count *= narrow[d];
    }
    between.resize(count);
    c2c<T>(narrow, in_strides, strides, shape_t(axes.begin(), axes.end() - 1), forward, in,
           between.data(), T(1));
    in = between.data();
  }
  const bool even = n % 2 == 0;
  const auto plans = plan_of<RealPlan<T>>(n);
  const Plan<T>& plan = plans->complex;
  const auto& turns = plans->turns;
  const size_t length = plan.length();
  std::vector<Numbers<T>> memory(half + 1 + length + plan.scratch());
  Numbers<T>*const given = memory.data(), *const line = given + half + 1;
  over_lines<T>(shape, axis, strides, out_strides,
                [&](size_t count, const ptrdiff_t* source, const ptrdiff_t* target) {
    for (size_t k = 0; k <= half; ++k) {
      // The first number's imaginary part, and the middle one's, have no part in real numbers.
      const bool real = k == 0 || (even && k == half);
      for (size_t l = 0; l < count; ++l) {
        const auto one = at<const std::complex<T>>(in, source[l] + ptrdiff_t(k) * strides[axis]);
        given[k].re[l] = one.real() * by;
        given[k].im[l] = real ? T(0) : (forward ? -one.imag() : one.imag()) * by;
      }
    }
    // Numbers whose parts are swapped: an inverse transform.
    for (size_t k = 0; k < length; ++k) {
      if (even) {
        Numbers<T> mirrored = given[half - k];
        mirrored.im = -mirrored.im;
        const Numbers<T> evens = given[k] + mirrored;
        const Numbers<T> odds = (given[k] - mirrored) * conj(turns[k]);
        line[k] = swapped(evens - turned(odds));
      } else {
        line[k] = given[k <= half ? k : n - k];
        line[k].im = k <= half ? line[k].im : -line[k].im;
        line[k] = swapped(line[k]);
      }
    }
    plan.forward(line, line + length);
    for (size_t k = 0; k < n; ++k) {
      // swapped back, real numbers are what was imaginary
      const Lanes<T>& part = !even || k % 2 == 0 ? line[even ? k / 2 : k].im : line[k / 2].re;
      for (size_t l = 0; l < count; ++l) {
        at<T>(out, target[l] + ptrdiff_t(k) * out_strides[axis]) = part[l];
      }
    }
  });
}

} // namespace pocketfft
