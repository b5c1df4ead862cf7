// XNNPACK's convolution: grouped, depthwise, dilated, strided.
#include "convolution.h"

#include <xnnpack/indirection.h>
#include <xnnpack/operator.h>

namespace lta {
namespace {

// XNNPACK's depthwise kernels have 3, 4, 9 or 25 numbers, and compute fewer with weights of 0. The pixels
// for those are of the next window, which shares pointers with this one: an infinity or a NaN there times
// 0 is NaN here. So windows get pointers of their own, and what one lacks is zeros.
void separate_windows(PackedConvolution& packed) {
  xnn_operator& op = *packed.op;
  const size_t height = op.kernel_height, numbers = height * op.kernel_width;
  const size_t tile = op.ukernel.dwconv.tile_size;
  if (op.ukernel.type != xnn_microkernel_type_dwconv || tile == numbers) {
    return;
  }
  // a kernel reads whole vectors of channels
  packed.zeros.assign(op.groups + 64, 0);
  // Pixels have addresses in an input that is not there yet. The kernel knows zeros by their address, so
  // none may have that one: they lie behind.
  op.last_input = packed.zeros.data() + packed.zeros.size();
  const size_t columns = (tile + height - 1) / height, row = op.output_width * columns * height;
  packed.pixels.assign(op.output_height * row, packed.zeros.data());
  // XNNPACK writes pointers behind the last window for a tile that is larger than `numbers`
  xnn_indirection_init_dwconv2d(
      0, op.output_height, packed.pixels.data(), op.last_input, op.input_pixel_stride * sizeof(float),
      packed.zeros.data(), op.input_height, op.input_width, op.output_height, op.output_width, height,
      op.kernel_width, op.stride_height, op.stride_width, op.dilation_height, op.dilation_width,
      op.padding_top, op.padding_left, row, columns, numbers);
  dwconv_context& context = op.context.dwconv.dwconv;
  context.zero = packed.zeros.data();
  context.indirect_input = packed.pixels.data();
  context.indirect_input_width_stride = intptr_t(columns * height * sizeof(void*));
  context.indirect_input_height_stride = row * sizeof(void*);
}

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
  if (xnn_reshape_convolution2d_nhwc_f32(
          packed.op.get(), size_t(packed.batch), size_t(packed.height), size_t(packed.width),
          workspace, &packed.workspace_alignment, &packed.out_height, &packed.out_width, pool) !=
      xnn_status_success) {
    return false;
  }
  separate_windows(packed);
  return true;
}

bool setup(PackedConvolution& packed, char* workspace, const float* from, float* to) {
  return xnn_setup_convolution2d_nhwc_f32(packed.op.get(), workspace, from, to) ==
      xnn_status_success;
}

const ConvolutionEngine engine = {create, reshape, setup};
const ListedEngine listed(&engine, /*transposed=*/false);

} // namespace
} // namespace lta
