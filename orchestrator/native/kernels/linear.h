// Linear layers as XNNPACK takes them, read from the arguments of whatever operator a model has.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "module_sites.h"

namespace lta {

struct LinearLayer {
  at::Tensor weight, bias;
  bool transposed = false; // the weight is [in, out], or a batch of such matrices
  bool turned = false;     // a matrix that lies in memory column by column
  int64_t dims = 0;        // of the input; 0: any
  // of a clamp that is part of it
  float least = -std::numeric_limits<float>::infinity();
  float most = std::numeric_limits<float>::infinity();
};

// Reads the weights of a call. False where they are not for XNNPACK.
using ReadLinear = bool (*)(const Arguments& given, LinearLayer* found);

// input: which argument is not packed
std::unique_ptr<Site> make_linear(std::vector<Step> steps, size_t input, ReadLinear read);

} // namespace lta
