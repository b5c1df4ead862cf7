// See shortcuts.h: putting them before a module's operators.
#include "shortcuts.h"
#include "spares.h"
#include "../capi/prepare_module.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <c10/util/accumulate.h>
#include <torch/csrc/jit/mobile/function.h>
#include <torch/csrc/jit/mobile/module.h>

namespace lta::shortcuts {

const Listed* listed = nullptr;

at::Tensor fresh(at::IntArrayRef sizes, c10::ScalarType dtype) {
  return spare(sizes, strides_of(sizes), c10::multiply_integers(sizes), dtype);
}

at::Tensor turn_into(const at::Tensor& of, at::IntArrayRef sizes, at::IntArrayRef strides,
                     int64_t offset) {
  c10::TensorImpl& own = *of.unsafeGetTensorImpl();
  // A view of what stands for a number, in dtypes of results, does not.
  if (of.use_count() > 1 || !own.allow_tensor_metadata_change() || own.is_wrapped_number()) {
    return view_of(of, sizes, strides, offset);
  }
  own.set_storage_offset(offset);
  own.set_sizes_and_strides(sizes, strides);
  return of;
}

Sizes strides_of(at::IntArrayRef sizes) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= sizes[i];
  }
  return strides;
}

bool read_ints(const c10::IValue& value, Sizes* ints) {
  if (!value.isIntList()) {
    return false;
  }
  for (const c10::IValue& item : value.toListRef()) {
    if (!item.isInt() || !ints->add(item.toInt())) {
      return false;
    }
  }
  return true;
}

namespace {

using c10::IValue;
namespace mobile = torch::jit::mobile;

const Shortcut* shortcut_of(const c10::OperatorName& name) {
  for (const Listed* list = listed; list != nullptr; list = list->next) {
    for (size_t i = 0; i < list->count; ++i) {
      const char* const known = list->first[i].name;
      const size_t length = name.name.size();
      if (name.name.compare(0, length, known, std::min(length, std::strlen(known))) == 0 &&
          (known[length] == '.' ? name.overload_name == known + length + 1
                                : known[length] == '\0' && name.overload_name.empty())) {
        return &list->first[i];
      }
    }
  }
  return nullptr;
}

void shorten(mobile::Module& module) {
  for (const auto& function : module.compilation_unit().methods()) {
    mobile::Code& code = function->get_code();
    if (!code.initialized) {
      continue;
    }
    for (size_t i = 0; i < code.op_names_.size(); ++i) {
      const Shortcut* const found = shortcut_of(code.op_names_[i]);
      const int given = code.operator_input_sizes_[i];
      const size_t taken = given < 0 ? found == nullptr ? 0 : found->arguments : size_t(given);
      if (found == nullptr || taken < found->least || taken > found->arguments) {
        continue;
      }
      auto run = std::move(code.operators_[i]);
      code.operators_[i] = [run = std::move(run), way = found->way, taken](torch::jit::Stack& stack) {
        if (taken <= stack.size()) {
          IValue* const first = stack.data() + (stack.size() - taken);
          IValue result = way(Given(first, taken));
          if (!result.isNone()) {
            *first = std::move(result);
            while (stack.data() + stack.size() > first + 1) {
              stack.pop_back();
            }
            return;
          }
        }
        run(stack);
      };
    }
  }
}

struct Start {
  Start() { shorten_module = shorten; }
} start;

} // namespace
} // namespace lta::shortcuts
