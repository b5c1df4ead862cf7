// The feature `convolution`: see orchestrator/libraries/data/kernels.yaml.
#include <xnnpack.h>

namespace lta {
namespace {
[[gnu::used]] const void* const used[] = {
    reinterpret_cast<const void*>(&xnn_create_convolution2d_nhwc_f32),
    reinterpret_cast<const void*>(&xnn_reshape_convolution2d_nhwc_f32),
    reinterpret_cast<const void*>(&xnn_setup_convolution2d_nhwc_f32),
    reinterpret_cast<const void*>(&xnn_run_operator),
    reinterpret_cast<const void*>(&xnn_delete_operator),
};

}  // namespace
}  // namespace lta
