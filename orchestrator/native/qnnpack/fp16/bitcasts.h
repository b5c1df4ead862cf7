// Stands in for FP16's header: the bits of a float.
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t fp32_to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float fp32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
