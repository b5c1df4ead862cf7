// See shortcuts.h.
#include "rows.h"
#include "shortcuts.h"

namespace lta::shortcuts {
namespace {

// The numbers of a scale or a shift, of so many: null where there is none. False where it is another.
bool read_row(const Given& given, size_t index, int64_t size, const float** row) {
  if (given.lacks(index)) {
    return true;
  }
  if (in_order(given[index], c10::kFloat) != size || given[index].toTensor().dim() != 1) {
    return false;
  }
  *row = numbers_of<float>(given[index].toTensor());
  return true;
}

// layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05, cudnn_enable=True), over the
// last dimension
c10::IValue layer_norm(const Given& given) {
  const int64_t count = in_order(given[0], c10::kFloat);
  if (count == 0 || given[0].toTensor().dim() == 0 || !given[1].isIntList() ||
      (given.has(4) && !given[4].isDouble())) {
    return {};
  }
  const at::IntArrayRef sizes = given[0].toTensor().sizes();
  const int64_t size = sizes.back();
  const auto shape = given[1].toListRef();
  const float *scale = nullptr, *shift = nullptr;
  if (shape.size() != 1 || !shape[0].isInt() || shape[0].toInt() != size ||
      !read_row(given, 2, size, &scale) || !read_row(given, 3, size, &shift)) {
    return {};
  }
  at::Tensor result = fresh(sizes);
  lta::layer_norm(numbers_of<float>(given[0].toTensor()), numbers_of<float>(result), count / size,
                  size, float(given.has(4) ? given[4].toDouble() : 1e-5), scale, shift, nullptr,
                  nullptr);
  return result;
}

const Shortcut some[] = {{"aten::layer_norm", 2, 6, layer_norm}};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
