// The feature `linear`: see orchestrator/libraries/data/kernels.yaml.
#include <xnnpack.h>

namespace lta {
namespace {
[[gnu::used]] const void* const used[] = {
    reinterpret_cast<const void*>(&xnn_create_fully_connected_nc_f32),
    reinterpret_cast<const void*>(&xnn_reshape_fully_connected_nc_f32),
    reinterpret_cast<const void*>(&xnn_setup_fully_connected_nc_f32),
    reinterpret_cast<const void*>(&xnn_run_operator),
    reinterpret_cast<const void*>(&xnn_delete_operator),
};

}  // namespace
}  // namespace lta
