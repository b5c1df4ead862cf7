// The feature `rewrite`: see orchestrator/libraries/data/kernels.yaml.
#include <xnnpack.h>

namespace lta {
namespace {
[[maybe_unused]] const bool registered = xnn_initialize(nullptr) == xnn_status_success;

}  // namespace
}  // namespace lta
