// What PyTorch 1.13.1 does not ask of a model file before it trusts it.
//
// Meaning: the unpickler and the lite interpreter take a file's word for how much is on their stacks,
// how long a tensor's memory is, which register there is. A damaged or crafted file then makes them
// read and write past what they own. Each checked_*.h is read first by one of PyTorch's units
// (`include` in the version's data) and puts the missing question where the unit goes on; PyTorch's
// files stay as they are. What is not asked even so: docs/guide/use-the-library.md, "Models that you
// trust".
//
// Trap: their macros name what is in scope where the unit uses them, and may not meet a header of
// PyTorch's: each includes all that its unit does before it defines one.
#pragma once

#include <cstddef>
#include <string>

namespace lta {

// Raises c10::Error: "the model is damaged: " and the text. Defined in model_checks.cpp, which every
// variant links.
[[noreturn]] void damaged(const char* what);

// Raises c10::Error: the class's name, and that this library has none of that name.
[[noreturn]] void missing_class(const std::string& name);

inline void expect(bool holds, const char* what) {
  if (__builtin_expect(!holds, 0)) {
    damaged(what);
  }
}

// A size that a file gives: its memory is asked for, and may be written, before the file is read on.
inline size_t modest(size_t size) {
  expect(size <= size_t(1) << 26, "a size beyond all bounds");
  return size;
}

// The size of the record that this thread read last. Set in checked_records.h: PyTorchStreamReader
// tells it to its callers, and the one on the unpickler's way drops it.
extern __thread size_t record_bytes;

} // namespace lta
