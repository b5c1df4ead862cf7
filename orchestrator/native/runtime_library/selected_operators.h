// Tables of the interpreter's operators that hold the selected ones alone.
//
// Meaning: torch/csrc/jit/runtime/register_prim_ops.cpp lists 670 operators in constant tables. One that
// is not selected is an entry of zeros, of 32 bytes: 21 KB of a library that has a handful of them.
// Here an entry that is not selected has no bytes. The unit is compiled with `-include` of this file,
// behind its projection.
//
// Trap: `OperatorGeneratorArgs` is a macro until the unit ends, where arguments follow it, and the
// unit's vectors of it are another class. The index is made without this: it reads the tables.
#pragma once

#ifndef LTA_INDEX

#include <vector>

#include <torch/csrc/jit/runtime/register_ops_utils.h>

#include "numbers_read.h"

namespace torch {
namespace jit {
namespace lta {

using torch::detail::SelectiveStr;

// Of the constructors of OperatorGeneratorArgs the first two; the third is for what is left out.
inline OperatorGeneratorArgs entry(
    SelectiveStr<true> schema,
    void (*operation)(Stack&),
    c10::AliasAnalysisKind kind) {
  return OperatorGeneratorArgs(schema, operation, kind);
}
inline OperatorGeneratorArgs entry(
    SelectiveStr<true> schema,
    OperationCreator creator,
    c10::AliasAnalysisKind kind) {
  return OperatorGeneratorArgs(schema, creator, kind);
}

struct LeftOut {};

template <typename... Rest>
[[gnu::always_inline]] inline LeftOut entry(SelectiveStr<false>, Rest...) {
  return {};
}

// One that a vector can hold: it has a type of its own.
struct Kept : OperatorGeneratorArgs {
  explicit Kept(const OperatorGeneratorArgs& one) : OperatorGeneratorArgs(one) {}
};

} // namespace lta
} // namespace jit
} // namespace torch

template <>
class std::vector<torch::jit::OperatorGeneratorArgs>
    : public std::vector<torch::jit::lta::Kept> {
 public:
  template <typename... Entries>
  [[gnu::always_inline]] explicit vector(const Entries&... entries) {
    // no fold: compilers bound how deep its expression nests
    const int each[] = {0, (take(entries), 0)...};
    (void)each;
  }

 private:
  [[gnu::noinline]] void take(const torch::jit::OperatorGeneratorArgs& one) {
    emplace_back(one);
  }
  [[gnu::always_inline]] void take(torch::jit::lta::LeftOut) {}
};

#define OperatorGeneratorArgs(...) lta::entry(__VA_ARGS__)

#endif // LTA_INDEX
