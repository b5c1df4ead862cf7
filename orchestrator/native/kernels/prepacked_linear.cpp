// Sites of the linear layers that `optimize_for_mobile` packed.
#include "linear.h"
#include "prepacked.h"

namespace lta {
namespace {

// linear_clamp_run(input, layer)
bool read_layer(const Arguments& given, LinearLayer* found) {
  const Layer* layer = layer_in(given[1]);
  if (layer == nullptr || layer->kind != LayerKind::kLinear || !is_plain(layer->weight)) {
    return false;
  }
  found->weight = layer->weight;
  found->bias = layer->bias;
  found->least = float(layer->least);
  found->most = float(layer->most);
  return true;
}

std::unique_ptr<Site> make(std::vector<Step> steps) {
  return make_linear(std::move(steps), 0, read_layer);
}

SiteKind kind = {"prepacked::linear_clamp_run", 1, 1, true, false, make, nullptr};
const ListedKind listed(&kind);

} // namespace
} // namespace lta
