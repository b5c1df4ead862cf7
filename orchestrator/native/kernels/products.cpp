// Products with a matrix, or a batch of them, that belongs to the model: `matmul`, `mm` and `bmm` are
// linear layers without a bias there.
#include "linear.h"

namespace lta {
namespace {

bool read_product(const Arguments& given, LinearLayer* found) {
  if (!read_tensor(given[1], &found->weight) || !found->weight.defined()) {
    return false;
  }
  const at::Tensor& weight = found->weight;
  found->transposed = true;
  // as `t()` makes it of what `linear` takes
  found->turned = weight.dim() == 2 && !weight.is_contiguous() && weight.stride(0) == 1 &&
      weight.stride(1) == weight.size(0);
  return true;
}

// mm(input, weight)
bool read_matrices(const Arguments& given, LinearLayer* found) {
  found->dims = 2;
  return read_product(given, found) && found->weight.dim() == 2;
}

// bmm(input, weight)
bool read_batches(const Arguments& given, LinearLayer* found) {
  return read_product(given, found) && found->weight.dim() == 3;
}

std::unique_ptr<Site> make_product(std::vector<Step> steps) {
  return make_linear(std::move(steps), 0, read_product);
}
std::unique_ptr<Site> make_matrices(std::vector<Step> steps) {
  return make_linear(std::move(steps), 0, read_matrices);
}
std::unique_ptr<Site> make_batches(std::vector<Step> steps) {
  return make_linear(std::move(steps), 0, read_batches);
}

SiteKind kinds[] = {
    {"aten::matmul", 1, 1, true, false, make_product, nullptr},
    {"aten::mm", 1, 1, true, false, make_matrices, nullptr},
    {"aten::bmm", 1, 1, true, false, make_batches, nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1]), ListedKind(&kinds[2])};

} // namespace
} // namespace lta
