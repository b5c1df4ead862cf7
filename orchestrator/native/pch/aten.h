// The precompiled header of PyTorch's units: what most of them read anyway. Nothing in it depends
// on a selection: the shared selected_mobile_ops.h only declares, and units with allow lists of
// operators or classes are compiled without it (op_allowlist.h expands those lists when read).
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/NamedTensorUtils.h>
#include <ATen/TensorUtils.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorIterator.h>
