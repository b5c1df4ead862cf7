// Sites of the convolutions that `optimize_for_mobile` packed.
#include "convolution.h"
#include "prepacked.h"

#include <algorithm>

namespace lta {
namespace {

void copy(const std::vector<int64_t>& from, uint32_t (&to)[2]) {
  std::copy(from.begin(), from.end(), to); // two numbers, asked when the layer was made
}

// conv2d_clamp_run(input, layer), and the transposed one
template <LayerKind kind>
bool read_layer(const Arguments& given, Convolution* found) {
  const Layer* layer = layer_in(given[1]);
  if (layer == nullptr || layer->kind != kind || !is_plain(layer->weight)) {
    return false;
  }
  found->weight = layer->weight;
  found->bias = layer->bias;
  found->dims = 2;
  copy(layer->stride, found->stride);
  copy(layer->padding, found->padding);
  copy(layer->output_padding, found->output_padding);
  copy(layer->dilation, found->dilation);
  found->groups = layer->groups;
  found->transposed = kind == LayerKind::kTransposed;
  found->least = float(layer->least);
  found->most = float(layer->most);
  return true;
}

template <LayerKind kind>
std::unique_ptr<Site> make(std::vector<Step> steps) {
  return make_convolution(std::move(steps), read_layer<kind>);
}

SiteKind kinds[] = {
    {"prepacked::conv2d_clamp_run", 1, 1, true, true, make<LayerKind::kConvolution>, nullptr},
    {"prepacked::conv2d_transpose_clamp_run", 1, 1, true, true, make<LayerKind::kTransposed>,
     nullptr},
};
const ListedKind listed[] = {ListedKind(&kinds[0]), ListedKind(&kinds[1])};

} // namespace
} // namespace lta
