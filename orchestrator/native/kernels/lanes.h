// Four floats at once, in a register of any processor that we build for.
#pragma once

#include <cstring>

namespace lta {

typedef float Lanes __attribute__((vector_size(16)));

// The memory need not be aligned.
inline Lanes lanes_at(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline void put(const Lanes& lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

} // namespace lta
