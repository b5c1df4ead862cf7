// Images in memory: channels first, as models see them, and last, as kernels of convolutions do; and
// what calls say of their windows.
#include "images.h"
#include "lanes.h"
#include "views.h"

#include <algorithm>
#include <cstring>

namespace lta {

using at::Tensor;

bool read_pair(const c10::IValue& value, int64_t otherwise, int64_t dims, uint32_t (&pair)[2]) {
  int64_t read[2] = {otherwise, otherwise};
  if (value.isIntList()) {
    const auto list = value.toIntVector();
    if (list.size() != 1 && list.size() != size_t(dims)) {
      return false;
    }
    read[1] = list.back();
    read[0] = list.size() == 2 ? list[0] : dims == 2 ? list[0] : otherwise;
  } else if (value.isInt()) {
    read[1] = value.toInt();
    read[0] = dims == 2 ? read[1] : otherwise;
  } else if (!value.isNone()) {
    return false;
  }
  for (int i = 0; i < 2; ++i) {
    if (read[i] < 0 || read[i] > 1 << 20) {
      return false;
    }
    pair[i] = uint32_t(read[i]);
  }
  return true;
}

namespace {

// Three rows of four numbers, as an image has them, become four triples that lie side by side.
inline void interleave(Lanes a, Lanes b, Lanes c, float* to) {
  put(__builtin_shufflevector(__builtin_shufflevector(a, b, 0, 4, 1, 5), c, 0, 1, 4, 2), to);
  put(__builtin_shufflevector(__builtin_shufflevector(b, c, 1, 5, 2, 6), a, 0, 1, 6, 2), to + 4);
  put(__builtin_shufflevector(__builtin_shufflevector(c, a, 2, 7, 3, 3), b, 0, 1, 7, 2), to + 8);
}

// Four rows of four numbers.
inline void turn(const float* from, int64_t stride, float* to, int64_t target_stride) {
  const Lanes a = lanes_at(from), b = lanes_at(from + stride);
  const Lanes c = lanes_at(from + 2 * stride), d = lanes_at(from + 3 * stride);
  const Lanes ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Lanes cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Lanes ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Lanes cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  put(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), to);
  put(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), to + target_stride);
  put(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), to + 2 * target_stride);
  put(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), to + 3 * target_stride);
}

// Rows of `from` become columns of `to`, four by four where there are as many.
void transpose(const float* from, float* to, int64_t rows, int64_t columns) {
  int64_t done = 0; // columns of the first three rows, where there are no more
  if (rows == 3) {
    for (; done + 4 <= columns; done += 4) {
      const float* const at = from + done;
      interleave(lanes_at(at), lanes_at(at + columns), lanes_at(at + 2 * columns), to + 3 * done);
    }
  }
  constexpr int64_t kBlock = 16; // rows whose columns fill a line of the cache
  for (int64_t row = 0; row < rows; row += kBlock) {
    const int64_t last = std::min(row + kBlock, rows);
    int64_t column = done;
    for (; last - row >= 4 && column + 4 <= columns; column += 4) {
      int64_t r = row;
      for (; r + 4 <= last; r += 4) {
        turn(from + r * columns + column, columns, to + column * rows + r, rows);
      }
      for (; r < last; ++r) {
        for (int64_t c = column; c < column + 4; ++c) {
          to[c * rows + r] = from[r * columns + c];
        }
      }
    }
    for (; column < columns; ++column) {
      for (int64_t r = row; r < last; ++r) {
        to[column * rows + r] = from[r * columns + column];
      }
    }
  }
}

} // namespace

Tensor channels_last_of(const Tensor& input, int64_t batch, int64_t channels, int64_t area) {
  const auto sizes = input.sizes();
  const auto strides = input.strides();
  const int64_t dims = input.dim();
  bool is_last = channels == 1 || strides[1] == 1;
  int64_t expected = channels;
  for (int64_t dim = dims - 1; dim >= 2; --dim) {
    is_last = is_last && (sizes[size_t(dim)] == 1 || strides[size_t(dim)] == expected);
    expected *= sizes[size_t(dim)];
  }
  is_last = is_last && (batch == 1 || strides[0] == expected);
  if (is_last && has_room_behind(input)) {
    return input;
  }
  Tensor copy = empty_float({batch * area * channels}, {1});
  float* const to = data_of(copy);
  if (!is_last && !input.is_contiguous()) { // a part of larger images, or one image many times
    int64_t turned[2][4];
    for (int64_t dim = 0; dim < dims; ++dim) {
      const int64_t source = dim == 0 ? 0 : dim == dims - 1 ? 1 : dim + 1;
      turned[0][dim] = sizes[size_t(source)];
      turned[1][dim] = strides[size_t(source)];
    }
    copy_in_order(data_of(input), {turned[0], size_t(dims)}, {turned[1], size_t(dims)}, to);
  } else if (is_last) {
    std::memcpy(to, data_of(input), size_t(batch * area * channels) * sizeof(float));
  } else {
    for (int64_t n = 0; n < batch; ++n) {
      transpose(data_of(input) + n * channels * area, to + n * channels * area, channels, area);
    }
  }
  return copy;
}

Tensor empty_images(at::IntArrayRef sizes) {
  const size_t dims = sizes.size();
  int64_t strides[4];
  int64_t stride = sizes[1];
  strides[1] = 1;
  for (size_t dim = dims - 1; dim >= 2; --dim) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  strides[0] = stride;
  return empty_float(sizes, {strides, dims});
}

Tensor in_usual_order(const Tensor& images) {
  const auto sizes = images.sizes();
  const size_t dims = sizes.size();
  int64_t strides[4];
  int64_t stride = 1;
  for (size_t dim = dims; dim-- > 0;) {
    strides[dim] = stride;
    stride *= sizes[dim];
  }
  const int64_t channels = sizes[1], area = strides[0] / channels;
  if (channels == 1 || area == 1) { // the same memory, by its other name
    images.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, {strides, dims});
    return images;
  }
  Tensor usual = empty_float(sizes, {strides, dims});
  for (int64_t n = 0; n < sizes[0]; ++n) {
    transpose(data_of(images) + n * strides[0], data_of(usual) + n * strides[0], area, channels);
  }
  return usual;
}

Tensor as_batch(const Tensor& image) {
  const auto dims = size_t(image.dim());
  int64_t sizes[4] = {1}, strides[4] = {0};
  std::copy_n(image.sizes().begin(), dims, sizes + 1);
  std::copy_n(image.strides().begin(), dims, strides + 1);
  return view_of(image, {sizes, dims + 1}, {strides, dims + 1}, image.storage_offset());
}

void leave_batch(const Tensor& images) {
  const auto dims = size_t(images.dim()) - 1;
  int64_t sizes[3], strides[3];
  std::copy_n(images.sizes().begin() + 1, dims, sizes);
  std::copy_n(images.strides().begin() + 1, dims, strides);
  images.unsafeGetTensorImpl()->set_sizes_and_strides({sizes, dims}, {strides, dims});
}

} // namespace lta
