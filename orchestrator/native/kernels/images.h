// Images in memory: channels first, as models see them, and last, as kernels of convolutions do.
#pragma once

#include "module_sites.h"

namespace lta {

// The images with their channels last, as XNNPACK reads them: itself, or a copy.
at::Tensor channels_last_of(const at::Tensor& input, int64_t batch, int64_t channels, int64_t area);

// Images of three or four dimensions with their channels last, which nothing has written.
at::Tensor empty_images(at::IntArrayRef sizes);

// Such images with their channels first: a copy, where that is another order.
at::Tensor in_usual_order(const at::Tensor& images);

// An image of two or three dimensions as a batch of itself.
at::Tensor as_batch(const at::Tensor& image);

// Makes a batch that nobody else has, of one image, that image.
void leave_batch(const at::Tensor& images);

// One or two numbers of a list, or a number for both: `[1, 1]`, `[1]`, `1`. False for what is out of
// bounds.
bool read_pair(const c10::IValue& value, int64_t otherwise, int64_t dims, uint32_t (&pair)[2]);

} // namespace lta
