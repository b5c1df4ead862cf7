// What parallel_unit.h takes of PyTorch's.
#pragma once

#include <cstdint>

namespace at {

inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }

namespace internal {
struct ThreadIdGuard {
  explicit ThreadIdGuard(int) {}
};
} // namespace internal
} // namespace at
