// `ink::smooth`: each inner point is drawn towards the middle of its neighbours.
#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lerp.h>
#include <torch/library.h>

#include "ink/points.h"

namespace ink {
namespace {

// Neighbours' middles, without the two ends: [N - 2, 3].
at::Tensor middles(const at::Tensor& points) {
  const auto from = points.contiguous();
  auto out = at::empty_like(from.slice(0, 1, -1), at::MemoryFormat::Contiguous);
  AT_DISPATCH_FLOATING_TYPES(from.scalar_type(), "ink_middles", [&] {
    const scalar_t* in = from.data_ptr<scalar_t>();
    scalar_t* to = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      to[i] = (in[i] + in[i + 2 * kColumns]) / 2;
    }
  });
  return out;
}

at::Tensor smooth(const at::Tensor& points, double strength) {
  require_points(points);
  auto out = points.clone();
  if (points.size(0) >= INK_LEAST_POINTS) {
    auto inner = out.slice(0, 1, -1);
    inner.copy_(at::lerp(inner, middles(points), strength));
  }
  return out;
}

} // namespace

TORCH_LIBRARY(ink, m) {
  m.def("smooth(Tensor points, float strength) -> Tensor");
}

TORCH_LIBRARY_IMPL(ink, CPU, m) {
  m.impl("smooth", TORCH_FN(smooth));
}

} // namespace ink
