// Read first by torch/csrc/jit/serialization/unpickler.cpp. See model_checks.h.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/mobile/type_parser.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/serialization/storage_context.h>
#include <torch/csrc/jit/serialization/unpickler.h>

#include <cstring>
#include <string>

#include "model_checks.h"

namespace lta {

using torch::jit::PickleOpCode;

// An instruction whose operands are on the stack: as many as Unpickler::readInstruction() takes.
inline PickleOpCode with_operands(PickleOpCode op, const std::vector<c10::IValue>& stack,
                                  const std::vector<size_t>& marks) {
  size_t operands = 0;
  switch (op) {
    case PickleOpCode::TUPLE1:
    case PickleOpCode::NEWOBJ:
    case PickleOpCode::BINPERSID:
      operands = 1;
      break;
    case PickleOpCode::TUPLE2:
    case PickleOpCode::BUILD:
    case PickleOpCode::REDUCE:
      operands = 2;
      break;
    case PickleOpCode::TUPLE3:
      operands = 3;
      break;
    case PickleOpCode::DICT:
    case PickleOpCode::SETITEMS:
      expect(marks.empty() || (stack.size() - marks.back()) % 2 == 0, "a key without a value");
      // fall through
    case PickleOpCode::TUPLE:
    case PickleOpCode::LIST:
    case PickleOpCode::APPENDS:
      operands = marks.empty() ? SIZE_MAX : marks.back();
      break;
    default:
      break;
  }
  expect(operands <= stack.size(), "a pickle takes what is not there");
  return op;
}

// The end of a line in what the buffer really holds. All of it is searched where more is to come;
// behind the last bytes of a pickle lie older ones.
inline void* line_end(const void* from, size_t count, size_t filled) {
  void* end = const_cast<void*>(std::memchr(from, '\n', count < filled ? count : filled));
  expect(end != nullptr || filled >= count, "a pickle ends within a name");
  return end;
}

inline void expect_dtype(c10::ScalarType type) {
  expect(int(type) >= 0 && type < c10::ScalarType::Undefined, "no dtype has this number");
}

// The bytes of a storage of `numel` elements over the record that was just read.
inline size_t storage_bytes(int64_t numel, size_t item) {
  size_t bytes = 0;
  expect(numel >= 0 && !__builtin_mul_overflow(size_t(numel), item, &bytes) &&
             (numel == 0 || bytes <= record_bytes),
         "a tensor's record is shorter than its storage");
  return bytes;
}

// The sizes of a tensor, all of whose elements lie in its storage.
inline const std::vector<int64_t>& within(const std::vector<int64_t>& sizes,
                                          const std::vector<int64_t>& strides, int64_t offset,
                                          const at::Tensor& storage) {
  const auto dtype = storage.scalar_type();
  int64_t available = int64_t(storage.storage().nbytes() / storage.itemsize());
  available *= dtype == c10::ScalarType::QUInt4x2 ? 2 : dtype == c10::ScalarType::QUInt2x4 ? 4 : 1;
  int64_t last = offset;
  int64_t numel = 1;
  bool holds = offset >= 0 && sizes.size() == strides.size();
  for (size_t dim = 0; holds && dim < sizes.size(); ++dim) {
    int64_t reach = 0;
    holds = sizes[dim] >= 0 && strides[dim] >= 0 &&
        !__builtin_mul_overflow(numel, sizes[dim], &numel) &&
        !__builtin_mul_overflow(strides[dim], sizes[dim] - 1, &reach) &&
        !__builtin_add_overflow(last, reach, &last);
  }
  expect(holds && (numel == 0 || last < available), "a tensor reaches beyond its storage");
  return sizes;
}

} // namespace lta

// In run() and readInstruction(), before an instruction is carried out.
#define readOpCode() ::lta::with_operands(readOpCode(), stack_, marks_)
// In setInput(), which makes the memo as long as an index wants.
#define insert(end, count, value) insert(end, ::lta::modest(count), value)
// In readBytes(), before the bytes are read.
#define resize(length) resize(::lta::modest(length))
// In readString(), which takes its buffer for full.
#define memchr(from, byte, count) ::lta::line_end(from, count, buffer_remaining_)
// In readInstruction(), for a storage.
#define toScalarType() \
  toScalarType();      \
  ::lta::expect_dtype(type)
#define Storage(unit, bytes, data, allocator, resizable) \
  Storage(unit, ::lta::storage_bytes(numel, dtype.itemsize()), data, allocator, resizable)
// In rebuildTensor().
#define set_sizes_and_strides(sizes, strides) \
  set_sizes_and_strides(::lta::within(sizes, strides, storage_offset, storage_tensor), strides)
