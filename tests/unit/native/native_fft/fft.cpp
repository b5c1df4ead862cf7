// Transforms of ours beside sums in long double: the largest error, as a part of the largest number.
#include <pocketfft_hdronly.h>

#include <algorithm>

namespace {

using Wide = std::complex<long double>;
using std::size_t;

// Of `shape` in the order of C.
void transform(std::vector<Wide>& all, const size_t* shape, size_t axis, bool forward) {
  size_t apart = 1;
  for (size_t d = axis + 1; d < 3; ++d) {
    apart *= shape[d];
  }
  const size_t n = shape[axis];
  const long double circle = (forward ? -2 : 2) * 3.14159265358979323846264338327950288L;
  std::vector<Wide> roots(n), line(n);
  for (size_t k = 0; k < n; ++k) {
    const long double angle = circle * (long double)k / (long double)n;
    roots[k] = {std::cos(angle), std::sin(angle)};
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (i / apart % n != 0) {
      continue;
    }
    for (size_t j = 0; j < n; ++j) {
      line[j] = 0;
      for (size_t k = 0; k < n; ++k) {
        line[j] += all[i + k * apart] * roots[j * k % n];
      }
    }
    for (size_t j = 0; j < n; ++j) {
      all[i + j * apart] = line[j];
    }
  }
}

double uniform() {
  static uint64_t state = 1131;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return double(state >> 11) / double(1ull << 53) - 0.5;
}

// Strides in bytes of an array that lies in memory with its first dimension innermost.
pocketfft::stride_t turned_round(const size_t* shape, size_t bytes) {
  return {ptrdiff_t(bytes), ptrdiff_t(bytes * shape[0]), ptrdiff_t(bytes * shape[0] * shape[1])};
}

pocketfft::stride_t in_order(const size_t* shape, size_t bytes) {
  return {ptrdiff_t(bytes * shape[1] * shape[2]), ptrdiff_t(bytes * shape[2]), ptrdiff_t(bytes)};
}

size_t turned(const size_t* shape, size_t i) {
  const size_t z = i % shape[2], y = i / shape[2] % shape[1], x = i / shape[2] / shape[1];
  return x + shape[0] * (y + shape[1] * z);
}

template <class T>
double error(const std::vector<Wide>& expected, const std::vector<std::complex<T>>& seen,
             const size_t* shape) {
  long double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const std::complex<T> one = seen[turned(shape, i)];
    difference = std::max(difference, std::abs(expected[i] - Wide(one.real(), one.imag())));
  }
  return double(difference / largest);
}

// kind 0: complex to complex; 1: real to complex, the half that is computed; 2: complex to real.
template <class T>
double of(int kind, const size_t* shape, const size_t* axes, size_t count, bool forward, double by) {
  const size_t last = axes[count - 1];
  size_t narrow[3] = {shape[0], shape[1], shape[2]};
  if (kind != 0) {
    narrow[last] = shape[last] / 2 + 1;
  }
  const size_t every = shape[0] * shape[1] * shape[2];
  std::vector<std::complex<T>> given(every);
  for (auto& one : given) {
    one = {T(uniform()), kind == 0 ? T(uniform()) : T(0)};
  }
  std::vector<Wide> expected(every);
  for (size_t i = 0; i < every; ++i) {
    expected[i] = Wide(given[i].real(), given[i].imag()) * (long double)by;
  }
  const pocketfft::shape_t sizes(shape, shape + 3), which(axes, axes + count);
  if (kind == 0) {
    std::vector<std::complex<T>> out(every);
    pocketfft::c2c<T>(sizes, in_order(shape, sizeof(std::complex<T>)),
                      turned_round(shape, sizeof(std::complex<T>)), which, forward, given.data(),
                      out.data(), T(by));
    for (size_t i = 0; i < count; ++i) {
      transform(expected, shape, axes[i], forward);
    }
    return error<T>(expected, out, shape);
  }
  std::vector<T> reals(every);
  for (size_t i = 0; i < every; ++i) {
    reals[i] = given[i].real();
  }
  std::vector<Wide> whole = expected;
  for (size_t i = 0; i < count; ++i) {
    transform(whole, shape, axes[i], forward);
  }
  const size_t all = narrow[0] * narrow[1] * narrow[2];
  std::vector<Wide> half(all);
  for (size_t i = 0; i < all; ++i) {
    const size_t z = i % narrow[2], y = i / narrow[2] % narrow[1], x = i / narrow[2] / narrow[1];
    half[i] = whole[(x * shape[1] + y) * shape[2] + z];
  }
  if (kind == 1) {
    std::vector<std::complex<T>> out(all);
    pocketfft::r2c<T>(sizes, in_order(shape, sizeof(T)),
                      turned_round(narrow, sizeof(std::complex<T>)), which, forward, reals.data(),
                      out.data(), T(by));
    return error<T>(half, out, narrow);
  }
  // What a transform the other way gave, rounded, comes back as the numbers times their count.
  std::vector<std::complex<T>> input(all);
  for (size_t i = 0; i < all; ++i) {
    input[i] = {T(half[i].real() / by), T(half[i].imag() / by)};
  }
  std::vector<T> out(every);
  pocketfft::c2r<T>(sizes, in_order(narrow, sizeof(std::complex<T>)), turned_round(shape, sizeof(T)),
                    which, !forward, input.data(), out.data(), T(by));
  long double times = 1;
  for (size_t i = 0; i < count; ++i) {
    times *= (long double)shape[axes[i]];
  }
  std::vector<std::complex<T>> seen(out.begin(), out.end());
  for (auto& one : expected) {
    one *= times;
  }
  return error<T>(expected, seen, shape);
}

} // namespace

extern "C" double error_of(bool wide, int kind, const size_t* shape, const size_t* axes,
                           size_t count, bool forward, double by) {
  return wide ? of<double>(kind, shape, axes, count, forward, by)
              : of<float>(kind, shape, axes, count, forward, by);
}
