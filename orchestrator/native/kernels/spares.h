// Memory of small tensors that is used again, with the tensors themselves.
//
// Meaning: making a tensor and its storage takes a thousand instructions, as many as computing 500
// numbers. What a Site or a shortcut makes it takes from a few that were made before and that nothing
// else refers to by now: not the interpreter, a list, an attribute, a view, the caller. Who refers to
// a tensor counts it, so no lifetime is computed in advance, and nothing has to be told: a tensor that
// is kept stays what it is.
//
// A thread that runs a model has the spares for itself, and leaves them to the next run, whichever
// thread's; where two run at once, each has its own, and one set stays. They go when a module is freed.
#pragma once

#include <ATen/core/Tensor.h>

namespace lta {

// A tensor that nothing has written, of `count` numbers, which the strides lay side by side.
at::Tensor spare(at::IntArrayRef sizes, at::IntArrayRef strides, int64_t count,
                 c10::ScalarType dtype);

} // namespace lta
