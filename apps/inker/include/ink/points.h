// A pen's points: a tensor [N, 3] of x, y and pressure.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

namespace ink {

constexpr int64_t kColumns = 3;

inline void require_points(const at::Tensor& points) {
  TORCH_CHECK(
      points.dim() == 2 && points.size(1) == kColumns, "points must be [N, 3], not ", points.sizes());
}

} // namespace ink
