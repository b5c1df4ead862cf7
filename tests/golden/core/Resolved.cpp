#include <ATen/ops/clamp_cpu_dispatch.h>
#include <ATen/ops/clamp_ops.h>
#include <ATen/ops/empty_cpu_dispatch.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/fill_cpu_dispatch.h>
#include <ATen/ops/fill_ops.h>
#include <ATen/ops/new_empty_strided_compositeexplicitautogradnonfunctional_dispatch.h>
#include <ATen/ops/new_empty_strided_ops.h>
#include <ATen/ops/slice_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/slice_ops.h>
#include <ATen/ops/t_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/t_ops.h>

namespace at { namespace _ops {

at::Tensor & clamp_out::call(const at::Tensor & self, const c10::optional<at::Scalar> & min, const c10::optional<at::Scalar> & max, at::Tensor & out) {
  ::lta::resolved<c10::DispatchKey::CPU>(
      "aten::clamp.out",
      c10::detail::multi_dispatch_key_set(self, min, max, out));
  return at::cpu::clamp_outf(self, min, max, out);
}
at::Tensor & clamp_out::redispatch(c10::DispatchKeySet dispatchKeySet, const at::Tensor & self, const c10::optional<at::Scalar> & min, const c10::optional<at::Scalar> & max, at::Tensor & out) {
  return clamp_out::call(self, min, max, out);
}

at::Tensor empty_memory_format::call(c10::SymIntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout> layout, c10::optional<at::Device> device, c10::optional<bool> pin_memory, c10::optional<at::MemoryFormat> memory_format) {
  ::lta::resolved<c10::DispatchKey::CPU>(
      "aten::empty.memory_format",
      c10::DispatchKeySet(c10::computeDispatchKey(dtype, layout, device)) |
          c10::detail::multi_dispatch_key_set(size, dtype, layout, device, pin_memory, memory_format));
  return at::cpu::empty_symint(size, dtype, layout, device, pin_memory, memory_format);
}
at::Tensor empty_memory_format::redispatch(c10::DispatchKeySet dispatchKeySet, c10::SymIntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout> layout, c10::optional<at::Device> device, c10::optional<bool> pin_memory, c10::optional<at::MemoryFormat> memory_format) {
  return empty_memory_format::call(size, dtype, layout, device, pin_memory, memory_format);
}

at::Tensor & fill__Scalar::call(at::Tensor & self, const at::Scalar & value) {
  ::lta::resolved<c10::DispatchKey::CPU>(
      "aten::fill_.Scalar",
      c10::detail::multi_dispatch_key_set(self, value));
  return at::cpu::fill_(self, value);
}
at::Tensor & fill__Scalar::redispatch(c10::DispatchKeySet dispatchKeySet, at::Tensor & self, const at::Scalar & value) {
  return fill__Scalar::call(self, value);
}

at::Tensor new_empty_strided::call(const at::Tensor & self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout> layout, c10::optional<at::Device> device, c10::optional<bool> pin_memory) {
  ::lta::resolved<c10::DispatchKey::CompositeExplicitAutogradNonFunctional>(
      "aten::new_empty_strided",
      c10::detail::multi_dispatch_key_set(self, size, stride, dtype, layout, device, pin_memory));
  return at::compositeexplicitautogradnonfunctional::new_empty_strided_symint(self, size, stride, dtype, layout, device, pin_memory);
}
at::Tensor new_empty_strided::redispatch(c10::DispatchKeySet dispatchKeySet, const at::Tensor & self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout> layout, c10::optional<at::Device> device, c10::optional<bool> pin_memory) {
  return new_empty_strided::call(self, size, stride, dtype, layout, device, pin_memory);
}

at::Tensor slice_Tensor::call(const at::Tensor & self, int64_t dim, c10::optional<c10::SymInt> start, c10::optional<c10::SymInt> end, c10::SymInt step) {
  ::lta::resolved<c10::DispatchKey::CompositeExplicitAutograd>(
      "aten::slice.Tensor",
      c10::detail::multi_dispatch_key_set(self, dim, start, end, step));
  return at::compositeexplicitautograd::slice_symint(self, dim, start, end, step);
}
at::Tensor slice_Tensor::redispatch(c10::DispatchKeySet dispatchKeySet, const at::Tensor & self, int64_t dim, c10::optional<c10::SymInt> start, c10::optional<c10::SymInt> end, c10::SymInt step) {
  return slice_Tensor::call(self, dim, start, end, step);
}

at::Tensor t::call(const at::Tensor & self) {
  ::lta::resolved<c10::DispatchKey::CompositeExplicitAutograd>(
      "aten::t",
      c10::detail::multi_dispatch_key_set(self));
  return at::compositeexplicitautograd::t(self);
}
at::Tensor t::redispatch(c10::DispatchKeySet dispatchKeySet, const at::Tensor & self) {
  return t::call(self);
}

}} // namespace at::_ops
