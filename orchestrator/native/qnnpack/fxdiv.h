// Stands in for FXdiv's header: a division is a division. QNNPACK asks a few of them for a row of
// pixels (indirection.c) or for a whole operator.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct fxdiv_divisor_size_t {
  size_t value;
};
struct fxdiv_divisor_uint32_t {
  uint32_t value;
};
struct fxdiv_result_size_t {
  size_t quotient;
  size_t remainder;
};

static inline struct fxdiv_divisor_size_t fxdiv_init_size_t(size_t divisor) {
  struct fxdiv_divisor_size_t made = {divisor};
  return made;
}
static inline struct fxdiv_divisor_uint32_t fxdiv_init_uint32_t(uint32_t divisor) {
  struct fxdiv_divisor_uint32_t made = {divisor};
  return made;
}
static inline struct fxdiv_result_size_t fxdiv_divide_size_t(
    size_t number, struct fxdiv_divisor_size_t divisor) {
  struct fxdiv_result_size_t result = {number / divisor.value, number % divisor.value};
  return result;
}
static inline uint32_t fxdiv_quotient_uint32_t(
    uint32_t number, struct fxdiv_divisor_uint32_t divisor) {
  return number / divisor.value;
}
