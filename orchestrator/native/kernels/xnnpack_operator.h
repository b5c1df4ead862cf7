// An operator of XNNPACK with its packed weights, and who owns it.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include <xnnpack.h>

namespace lta {

struct DeleteOperator {
  void operator()(xnn_operator* packed) const { xnn_delete_operator(packed); }
};
using Operator = std::unique_ptr<xnn_operator, DeleteOperator>;

// Whether XNNPACK can run on this machine.
bool xnnpack_is_ready();

// A place for one value that threads take in turn: who finds it empty makes a value of his own.
template <class T>
class Shelf {
 public:
  ~Shelf() { delete kept_.load(); }
  std::unique_ptr<T> take() { return std::unique_ptr<T>(kept_.exchange(nullptr)); }
  void put(std::unique_ptr<T> value) { delete kept_.exchange(value.release()); }

 private:
  std::atomic<T*> kept_{nullptr};
};

} // namespace lta
