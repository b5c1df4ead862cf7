// An operator of XNNPACK with its packed weights, and who owns it.
#pragma once

#include <memory>

#include <xnnpack.h>

namespace lta {

struct DeleteOperator {
  void operator()(xnn_operator* packed) const { xnn_delete_operator(packed); }
};
using Operator = std::unique_ptr<xnn_operator, DeleteOperator>;

// Whether XNNPACK can run on this machine.
bool xnnpack_is_ready();

} // namespace lta
