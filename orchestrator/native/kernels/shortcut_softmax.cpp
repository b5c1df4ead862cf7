// See shortcuts.h.
#include "rows.h"
#include "shortcuts.h"

namespace lta::shortcuts {
namespace {

// softmax.int(self, dim, dtype=None), over the last dimension
template <void (*run)(const float* from, float* to, int64_t rows, int64_t size)>
c10::IValue softmax(const Given& given) {
  const int64_t count = in_order(given[0], c10::kFloat);
  if (count == 0 || !given[1].isInt() || !given.lacks(2)) {
    return {};
  }
  const at::Tensor& from = given[0].toTensor();
  const int64_t dim = given[1].toInt();
  if (from.dim() == 0 || (dim != -1 && dim != from.dim() - 1)) {
    return {};
  }
  at::Tensor result = fresh(from.sizes());
  const int64_t size = from.sizes().back();
  run(numbers_of<float>(from), numbers_of<float>(result), count / size, size);
  return result;
}

const Shortcut some[] = {
    {"aten::softmax.int", 2, 3, softmax<lta::softmax>},
    {"aten::log_softmax.int", 2, 3, softmax<lta::log_softmax>},
};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
