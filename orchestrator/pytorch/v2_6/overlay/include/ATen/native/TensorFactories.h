// Stands before PyTorch's ATen/native/TensorFactories.h, which every unit that resizes reads, generated
// registrations among them: `fill_empty_deterministic_` in it switches over dtypes, so that each of
// them would depend on a selection. It runs where deterministic algorithms were asked for, which
// nothing in our libraries does; here it raises an error.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DispatchStub.h>

// Not AT_DISPATCH_V2: its header has no guard, and is read again.
#pragma push_macro("AT_DISPATCH_SWITCH")
#undef AT_DISPATCH_SWITCH
#define AT_DISPATCH_SWITCH(...) TORCH_CHECK(false, "empty tensors are not filled in this library")
#include_next <ATen/native/TensorFactories.h>
#pragma pop_macro("AT_DISPATCH_SWITCH")
