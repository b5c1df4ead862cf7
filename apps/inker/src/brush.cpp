#include "ink/brush.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>
#include <tuple>

#include "ink/points.h"

namespace ink {

Brush::Brush(double width, at::Tensor response)
    : width_(width), response_(response.contiguous()) {
  TORCH_CHECK(response_.dim() == 1 && response_.size(0) >= 2, "a response must be [R], R >= 2");
}

at::Tensor Brush::widths(const at::Tensor& points) const {
  require_points(points);
  TORCH_CHECK(points.scalar_type() == response_.scalar_type(), "points must be of the response's dtype");
  const auto pressure = at::clamp(points.select(1, kColumns - 1), 0, 1).contiguous();
  auto out = at::empty_like(pressure);
  AT_DISPATCH_FLOATING_TYPES(pressure.scalar_type(), "ink_brush_widths", [&] {
    const int64_t last = response_.size(0) - 1;
    const scalar_t* factor = response_.data_ptr<scalar_t>();
    const scalar_t* from = pressure.data_ptr<scalar_t>();
    scalar_t* to = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      const scalar_t at = from[i] * last;
      // of a pressure that is no number, the first
      const int64_t step = at >= 0 ? std::min<int64_t>(at, last - 1) : 0;
      const scalar_t part = at - step;
      to[i] = width_ * (factor[step] + part * (factor[step + 1] - factor[step]));
    }
  });
  return out;
}

c10::intrusive_ptr<Brush> Brush::scaled(double factor) const {
  return c10::make_intrusive<Brush>(width_ * factor, response_);
}

TORCH_LIBRARY_FRAGMENT(ink, m) {
  using State = std::tuple<double, at::Tensor>;
  m.class_<Brush>("Brush")
      .def(torch::init<double, at::Tensor>())
      .def("widths", &Brush::widths)
      .def("scaled", &Brush::scaled)
      .def_property("width", &Brush::width)
      .def_pickle(
          [](const c10::intrusive_ptr<Brush>& self) -> State {
            return {self->width(), self->response()};
          },
          [](State state) {
            return c10::make_intrusive<Brush>(std::get<0>(state), std::get<1>(state));
          });
}

} // namespace ink
