// `ink.Brush`: what a pen draws with. Models hold one, and make others.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

namespace ink {

class Brush : public torch::CustomClassHolder {
 public:
  // width: of a line that is drawn without pressure; response [R]: how much wider at pressures from
  // 0 to 1, which are spread evenly.
  Brush(double width, at::Tensor response);

  double width() const {
    return width_;
  }
  const at::Tensor& response() const {
    return response_;
  }

  // How wide the line is at each of the points [N, 3]: [N].
  at::Tensor widths(const at::Tensor& points) const;

  // A brush of the same response.
  c10::intrusive_ptr<Brush> scaled(double factor) const;

 private:
  double width_;
  at::Tensor response_;
};

} // namespace ink
