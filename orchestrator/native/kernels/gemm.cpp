// The feature `gemm`: see orchestrator/libraries/data/kernels.yaml.
#include <xnnpack.h>

namespace lta {
namespace {
[[gnu::used]] const void* const used[] = {
    reinterpret_cast<const void*>(&xnn_create_fully_connected_nc_f32),
};

}  // namespace
}  // namespace lta
