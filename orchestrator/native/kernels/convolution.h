// Convolutions as XNNPACK takes them, read from the arguments of whatever operator a model has.
//
// convolution_site.cpp has what all share; each of XNNPACK's two operators is an engine, in a source of
// its own: convolution.cpp, transposed.cpp.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "large_windows.h"
#include "module_sites.h"
#include "xnnpack_operator.h"

namespace lta {

struct Convolution {
  at::Tensor weight, bias; // [out, in / groups, ...]; transposed: [in, out / groups, ...]
  int64_t dims = 0;        // one or two
  uint32_t stride[2] = {1, 1}, padding[2] = {0, 0}, output_padding[2] = {0, 0}, dilation[2] = {1, 1};
  int64_t groups = 1;
  bool transposed = false;
  bool takes_image = false; // without a batch
  // of a clamp that is part of it
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();

  // All channels, and the kernel's size.
  int64_t in() const { return transposed ? weight.size(0) : weight.size(1) * groups; }
  int64_t out() const { return transposed ? weight.size(1) * groups : weight.size(0); }
  uint32_t height() const { return dims == 2 ? uint32_t(weight.size(2)) : 1; }
  uint32_t width() const { return uint32_t(weight.size(-1)); }

  // Whether it is depthwise, and XNNPACK has no kernel for it.
  bool has_large_windows() const {
    return !transposed && groups >= kLeastChannels && in() == groups && out() == groups &&
        int64_t(height()) * int64_t(width()) > kLargestWindow && stride[0] > 0 && stride[1] > 0 &&
        dilation[0] > 0 && dilation[1] > 0;
  }

  // Multiplications for an input of so many places, about. To write a result takes as long as some.
  double work(double places) const {
    const double each = double(weight.numel()) + 16 * double(out());
    return places * each / (transposed ? 1 : double(stride[0]) * stride[1]);
  }
};

struct PackedConvolution : Packed {
  Operator op; // null: large windows
  LargeWindows large;
  Convolution of;
  // What it was last shaped for, and what comes out.
  int64_t batch = -1, height = -1, width = -1;
  size_t out_height = 0, out_width = 0;
  size_t threads = 0;
  std::vector<char> workspace;
  size_t workspace_alignment = 1;
  // of all windows, and for what they lack: see `separate_windows`
  std::vector<const void*> pixels;
  std::vector<float> zeros;
};

// One of XNNPACK's operators. Null, or false, where it cannot.
struct ConvolutionEngine {
  // kernel: an output channel of a group after the other, its input channels last
  xnn_operator* (*create)(const Convolution& of, const float* kernel, const float* bias,
                          float least, float most);
  bool (*reshape)(PackedConvolution& packed, size_t* workspace, pthreadpool_t pool);
  bool (*setup)(PackedConvolution& packed, char* workspace, const float* from, float* to);
};

// Whether XNNPACK's table of addresses, one for each number of the kernel and each of the result, has
// a size that can be computed: it does not ask. A model may pad or stride without end.
inline bool is_bounded(const Convolution& of, int64_t height, int64_t width) {
  const int64_t images[2] = {height, width}, kernels[2] = {of.height(), of.width()};
  double table = 1;
  for (int i = 0; i < 2; ++i) {
    const double size = of.transposed
        ? double(images[i] - 1) * of.stride[i] + double(kernels[i] - 1) * of.dilation[i] + 1 +
            of.output_padding[i]
        : double(images[i]) + 2.0 * of.padding[i];
    table *= size * double(kernels[i]);
  }
  return table < double(std::numeric_limits<ptrdiff_t>::max() / 64);
}

// Whether XNNPACK computes it: a result has places. XNNPACK takes zeros for what a kernel lacks that is
// larger than the padded image; it divides by the size of a transposed result, and writes beyond its own
// memory where one is smaller than the stride (xnn_indirection_init_subconv2d).
inline bool has_places(const Convolution& of, int64_t height, int64_t width) {
  const int64_t images[2] = {height, width}, kernels[2] = {of.height(), of.width()};
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = (kernels[i] - 1) * int64_t(of.dilation[i]) + 1;
    const int64_t padding = 2 * int64_t(of.padding[i]);
    const int64_t stride = of.stride[i];
    const int64_t room = of.transposed
        ? (images[i] - 1) * stride + reach + of.output_padding[i] - padding - stride
        : images[i] + padding - reach;
    if (room < 0) {
      return false;
    }
  }
  return true;
}

// Shapes the operator for images of such a size, unless it is. False where it cannot be: PyTorch's own
// operator then says why.
inline bool shape(decltype(ConvolutionEngine::reshape) reshape, PackedConvolution& packed,
                  int64_t batch, int64_t height, int64_t width, pthreadpool_t pool) {
  const size_t threads = pthreadpool_get_threads_count(pool);
  if (packed.batch == batch && packed.height == height && packed.width == width &&
      packed.threads == threads) {
    return true;
  }
  packed.batch = -1;
  if (!is_bounded(packed.of, height, width) || !has_places(packed.of, height, width)) {
    return false;
  }
  packed.batch = batch;
  packed.height = height;
  packed.width = width;
  packed.threads = threads;
  size_t workspace = 0;
  if (!reshape(packed, &workspace, pool) || packed.out_height == 0 || packed.out_width == 0) {
    packed.batch = -1;
    return false;
  }
  packed.workspace.resize(workspace + packed.workspace_alignment);
  return true;
}

// The engines that this library has: for convolutions, and for transposed ones.
extern const ConvolutionEngine* convolution_engines[2];

struct ListedEngine {
  ListedEngine(const ConvolutionEngine* engine, bool transposed) {
    convolution_engines[transposed] = engine;
  }
};

// Reads the weights and numbers of a call. False where they are not for XNNPACK.
using ReadConvolution = bool (*)(const Arguments& given, Convolution* found);

std::unique_ptr<Site> make_convolution(std::vector<Step> steps, ReadConvolution read);

} // namespace lta
