// An operator of XNNPACK with its packed weights, and who owns it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <pthreadpool.h>
#include <xnnpack.h>

namespace lta {

struct DeleteOperator {
  void operator()(xnn_operator* packed) const { xnn_delete_operator(packed); }
};
using Operator = std::unique_ptr<xnn_operator, DeleteOperator>;

// Multiplications that are worth the library's threads: 50 microseconds of a kernel's work. Waking
// them takes about 100, but they stay awake for 200 after a region (native/threads/pool.cpp).
constexpr double kWorthThreads = 2e6;

// Where so many multiplications are computed: on the caller's thread (NULL), or on all that the
// library has. An operator is shaped for the pool that it runs on.
inline pthreadpool_t pool_for(double work) {
  return work < kWorthThreads ? nullptr : pthreadpool_create(0);
}

// Whether XNNPACK can run on this machine.
bool xnnpack_is_ready();

} // namespace lta
