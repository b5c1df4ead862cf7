// XNNPACK's convolution: grouped, depthwise, dilated, strided.
#include "convolution.h"

namespace lta {
namespace {

xnn_operator* create(const Convolution& of, const float* kernel, const float* bias, float least,
                     float most) {
  xnn_operator* made = nullptr;
  const auto in = size_t(of.in()), out = size_t(of.out()), groups = size_t(of.groups);
  xnn_create_convolution2d_nhwc_f32(
      of.padding[0], of.padding[1], of.padding[0], of.padding[1], of.height(), of.width(),
      of.stride[0], of.stride[1], of.dilation[0], of.dilation[1], uint32_t(groups), in / groups,
      out / groups, in, out, kernel, bias, least, most, /*flags=*/0, /*code_cache=*/nullptr,
      /*weights_cache=*/nullptr, &made);
  return made;
}

bool reshape(PackedConvolution& packed, size_t* workspace, pthreadpool_t pool) {
  return xnn_reshape_convolution2d_nhwc_f32(
             packed.op.get(), size_t(packed.batch), size_t(packed.height), size_t(packed.width),
             workspace, &packed.workspace_alignment, &packed.out_height, &packed.out_width,
             pool) == xnn_status_success;
}

bool setup(PackedConvolution& packed, char* workspace, const float* from, float* to) {
  return xnn_setup_convolution2d_nhwc_f32(packed.op.get(), workspace, from, to) ==
      xnn_status_success;
}

const ConvolutionEngine engine = {create, reshape, setup};
const ListedEngine listed(&engine, /*transposed=*/false);

} // namespace
} // namespace lta
