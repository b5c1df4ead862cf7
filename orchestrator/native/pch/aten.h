// The precompiled header of PyTorch's units: what most of them read anyway. Nothing in it depends
// on a selection: the shared selected_mobile_ops.h only declares, and a unit's projection, which is
// read after this, redefines the macros that ask for dtypes, operators and classes.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NamedTensorUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorIterator.h>
