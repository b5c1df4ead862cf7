// See shortcuts.h.
#include "rows.h"
#include "shortcuts.h"

namespace lta::shortcuts {
namespace {

template <void (*run)(const float* from, float* to, int64_t count)>
c10::IValue each(const Given& given) {
  const int64_t count = in_order(given[0], c10::kFloat);
  if (count == 0) {
    return {};
  }
  at::Tensor result = fresh(given[0].toTensor().sizes());
  run(numbers_of<float>(given[0].toTensor()), numbers_of<float>(result), count);
  return result;
}

// gelu(self, *, approximate='none')
c10::IValue gelu(const Given& given) {
  if (given.has(1) && !(given[1].isString() && given[1].toStringRef() == "none")) {
    return {};
  }
  return each<lta::gelu>(given);
}

const Shortcut some[] = {
    {"aten::gelu", 1, 2, gelu},
    {"aten::silu", 1, 1, each<lta::silu>},
};
Listed own(some);

} // namespace
} // namespace lta::shortcuts
