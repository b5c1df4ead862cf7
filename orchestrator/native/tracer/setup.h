// The calls that apps make around a model, so that a libtorch cut to the model still serves them.
//
// Source: call_setup_methods() and consume_tensor() in upstream's model tracer (1.13.1,
// torch/csrc/jit/mobile/model_tracer/TracerRunner.cpp), call by call, plus the two operators of its
// always_included_traced_ops. The C API itself calls no operator; these are for apps that use
// PyTorch's C++ API on the static libraries.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tracer {

// Makes every call; returns those that failed, each with the reason. An operator that is not in
// this runtime fails its own call and no other.
std::vector<std::pair<std::string, std::string>> make_setup_calls();

// What upstream's Java bindings do with each input and output.
void consume(const at::Tensor& tensor);

} // namespace tracer
