// What tests/unit/native/test_native_vectors.py runs: products with vectors, at the level that it chooses.
#include "vectors.cpp"

extern "C" {

void choose(int wide) { chosen = {wide != 0, wide != 0, false, false}; }

void sgemv(int transpose, int64_t m, int64_t n, float alpha, const float* a, int64_t lda,
           const float* x, int64_t incx, float beta, float* y, int64_t incy) {
  lta::sgemv(transpose != 0, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
float sdot(int64_t count, const float* x, int64_t incx, const float* y, int64_t incy) {
  return lta::sdot(count, x, incx, y, incy);
}
}
