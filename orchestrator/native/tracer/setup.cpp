// See setup.h.
#include "setup.h"

#include <ATen/Functions.h>

#include <exception>

namespace tracer {

namespace {

// Upstream's comment: failures typically show up in CopyKernel.cpp, so the dtypes that may show up
// are enumerated.
const at::ScalarType kCopied[] = {at::kBool, at::kByte,   at::kFloat, at::kInt,
                                  at::kChar, at::kDouble, at::kShort, at::kLong};
const at::ScalarType kCopiedFrom[] = {at::kBool, at::kFloat, at::kInt};

using Call = void (*)();

const std::pair<const char*, Call> kCalls[] = {
    {"zeros", [] { at::zeros({2, 2}); }},
    {"zeros of no elements", [] { at::zeros({0, 0}, at::kFloat); }},
    {"ones", [] { at::ones({2, 2}); }},
    {"empty and fill_", [] { at::empty({7, 7}).fill_(3); }},
    {"new_empty_strided", [] { at::empty({7, 7}).new_empty_strided({2, 3}, {3, 1}); }},
    {"narrow", [] { at::narrow(at::empty({7, 7}), 1, 0, 1); }},
    {"eq", [] { at::eq(at::empty({7, 7}).fill_(3), at::empty({7, 7}).fill_(3)); }},
    // What at::native::is_nonzero() calls; it is no operator call itself.
    {"is_nonzero", [] { at::zeros({1}).item(); }},
    {"div", [] { at::empty({7, 7}).fill_(3).div(1); }},
    {"copy between dtypes",
     [] {
       for (const auto to : kCopied) {
         const at::Tensor tensor = at::empty({10}, to);
         for (const auto from : kCopiedFrom) {
           tensor.copy_(at::zeros({10}, from));
         }
       }
     }},
    {"from_blob",
     [] {
       float storage[20] = {};
       at::from_blob(storage, {2, 10}, at::kFloat);
     }},
    {"resize_", [] { at::empty({2}).resize_({4}); }},
    {"slice", [] { at::empty({7, 7}).slice(0, 0, 1); }},
};

} // namespace

std::vector<std::pair<std::string, std::string>> make_setup_calls() {
  std::vector<std::pair<std::string, std::string>> failures;
  for (const auto& call : kCalls) {
    try {
      call.second();
    } catch (const c10::Error& error) {
      failures.emplace_back(call.first, error.what_without_backtrace());
    } catch (const std::exception& error) {
      failures.emplace_back(call.first, error.what());
    }
  }
  return failures;
}

void consume(const at::Tensor& tensor) {
  tensor.copy_(tensor.cpu());
}

} // namespace tracer
