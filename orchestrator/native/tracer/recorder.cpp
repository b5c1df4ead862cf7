// See recorder.h.
#include "recorder.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <set>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/dispatch/ObservedOperators.h>
#include <ATen/record_function.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/jit/mobile/module.h>
#include <torch/csrc/jit/runtime/instruction.h>
#include <torch/csrc/jit/runtime/operator.h>

#include "handles.h"
#include "setup.h"

#if defined(PYTORCH_DISABLE_PER_OP_PROFILING) || !defined(ENABLE_RECORD_KERNEL_FUNCTION_DTYPE)
#error "the tracer is compiled with the tracing flags: see recorder.h"
#endif

namespace tracer {

namespace {

namespace mobile = torch::jit::mobile;

enum class Phase { Model, Setup, Repeat };

Recording recording;
std::mutex lock; // over `recording`; an operator may run on threads of its own
Phase phase = Phase::Model;

// PyTorch leaves operators such as aten::size and aten::is_complex unobserved. An operator asks for
// that once, when it is registered, which is before main(): so the list is emptied before all other
// static initialisers. (Upstream's tracer empties it in main() and misses those operators.)
__attribute__((constructor(101))) void observe_all_operators() {
  c10::ObservedOperators::getUnobservedOperatorList().clear();
}

// ---- Work ----

// No model does more; sums stay there.
constexpr int64_t kMost = int64_t(1) << 53;

int64_t sum_up_to_most(int64_t left, int64_t right) {
  return std::min(kMost, std::min(kMost, left) + std::min(kMost, right));
}

// An operator that is running, and the tensors that it was given.
struct Frame {
  std::string name; // "" for something that is not an operator
  std::vector<int64_t> inputs; // how many elements each has
  std::set<std::string> tags; // of the kernels that ran in it, those of its callees left out
};

thread_local std::vector<Frame> frames;

void count_elements(const c10::IValue& value, std::vector<int64_t>& counts) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && !tensor.is_nested()) { // a nested one has no such number
      counts.push_back(std::min(kMost, tensor.numel()));
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      count_elements(item, counts);
    }
  }
}

// Of values, the last `count`: a boxed call shows the interpreter's whole stack, of which they are
// the top.
template <class Values>
std::vector<int64_t> elements_of_last(const Values& values, size_t count) {
  std::vector<int64_t> counts;
  for (size_t i = values.size() - std::min(count, values.size()); i < values.size(); ++i) {
    count_elements(values[i], counts);
  }
  return counts;
}

int64_t largest(const std::vector<int64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

// The multiply-adds of a product of matrices, whichever of its tensors is which: of m*k, k*n and
// m*n elements, the root of their product is m*k*n. For a convolution it is of that order.
int64_t products(std::vector<int64_t> counts, int64_t output) {
  counts.push_back(output);
  std::sort(counts.rbegin(), counts.rend());
  counts.resize(3);
  const double product = double(counts[0]) * double(counts[1]) * double(counts[2]);
  return int64_t(std::min(double(kMost), std::sqrt(product)));
}

// Adds what the operator's call did to each kernel that ran in it.
void count_work(const Frame& frame, const std::vector<int64_t>& outputs) {
  const int64_t output = largest(outputs);
  for (const std::string& tag : frame.tags) {
    Work& work = recording.work[tag];
    work.inputs = sum_up_to_most(work.inputs, largest(frame.inputs));
    work.outputs = sum_up_to_most(work.outputs, output);
    work.products = sum_up_to_most(work.products, products(frame.inputs, output));
  }
}

// Keeps which operators were running when the first error of a run was raised, the outermost first.
void note_failure() {
  const std::lock_guard<std::mutex> guard(lock);
  if (phase == Phase::Setup || !recording.failed_in.empty()) {
    return;
  }
  for (const Frame& frame : frames) {
    // an operator of the bytecode that is one of the dispatcher's has two frames
    if (!frame.name.empty() &&
        (recording.failed_in.empty() || recording.failed_in.back() != frame.name)) {
      recording.failed_in.push_back(frame.name);
    }
  }
}

void pop_frame(const std::vector<int64_t>& outputs) {
  if (frames.empty()) { // hooked while it ran
    return;
  }
  if (std::uncaught_exceptions() > 0) {
    note_failure();
  }
  if (phase == Phase::Model) {
    const std::lock_guard<std::mutex> guard(lock);
    count_work(frames.back(), outputs);
  }
  frames.pop_back();
}

// ---- PyTorch's callbacks ----

Usage& usage() {
  return phase == Phase::Setup ? recording.setup : recording.model;
}

std::unique_ptr<at::ObserverContext> operator_started(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  std::string text = name ? c10::toString(*name) : std::string();
  if (name && phase != Phase::Repeat) {
    const std::lock_guard<std::mutex> guard(lock);
    ++usage().operators[text];
  }
  frames.push_back(
      {std::move(text), elements_of_last(function.inputs(), function.num_inputs()), {}});
  return nullptr;
}

void operator_ended(const at::RecordFunction& function, at::ObserverContext*) {
  pop_frame(elements_of_last(function.outputs(), function.num_outputs()));
}

// The name is "tag$Dtype"; the scope is over before the kernel begins.
std::unique_ptr<at::ObserverContext> kernel_started(const at::RecordFunction& function) {
  const std::string name = function.name();
  const size_t dollar = name.rfind('$');
  std::string tag = name.substr(0, dollar);
  const std::lock_guard<std::mutex> guard(lock);
  if (phase != Phase::Repeat) {
    ++usage().kernel_tags[tag][dollar == std::string::npos ? "" : name.substr(dollar + 1)];
  }
  if (!frames.empty()) {
    frames.back().tags.insert(std::move(tag));
  }
  return nullptr;
}

// Registrations know a class by its last part, "LinearPackedParamsBase"; a schema or the loader by
// its qualified name, perhaps with brackets around.
std::string class_name(const std::string& qualified) {
  const std::string name = qualified.substr(qualified.rfind('.') + 1);
  const auto end = std::find_if_not(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_';
  });
  return std::string(name.begin(), end);
}

std::unique_ptr<at::ObserverContext> class_loaded(const at::RecordFunction& function) {
  const std::lock_guard<std::mutex> guard(lock);
  ++recording.custom_classes[class_name(function.name())];
  return nullptr;
}

std::unique_ptr<at::ObserverContext> feature_required(const at::RecordFunction& function) {
  const std::lock_guard<std::mutex> guard(lock);
  ++recording.build_features[function.name()];
  return nullptr;
}

void hook(at::RecordScope scope, at::RecordFunctionCallback::StartCallback start) {
  at::addGlobalCallback(at::RecordFunctionCallback(start).scopes({scope}));
}

void hook_operators() {
  at::addGlobalCallback(at::RecordFunctionCallback(operator_started, operator_ended)
                            .needsInputs(true)
                            .needsOutputs(true)
                            .scopes({at::RecordScope::FUNCTION}));
}

// ---- Root operators ----

// Counts the calls of the operator closures of a function's bytecode.
void wrap(mobile::Function& function) {
  mobile::Code& code = function.get_code();
  for (size_t i = 0; i < code.operators_.size() && i < code.op_names_.size(); ++i) {
    if (!code.operators_[i]) { // missing: the run will say so
      continue;
    }
    const std::string name = c10::toString(code.op_names_[i]);
    code.operators_[i] = [name, run = std::move(code.operators_[i])](mobile::Stack& stack) {
      if (phase != Phase::Repeat) {
        const std::lock_guard<std::mutex> guard(lock);
        ++recording.root_operators[name].calls;
      }
      struct Scope {
        ~Scope() { pop_frame({}); }
      };
      frames.push_back({name, {}, {}});
      const Scope scope;
      run(stack);
    };
  }
}

// The functions that a module can reach: its own, and the upgraders that its CALLs name (those of
// older models; every function lists all upgraders, whether it calls them or not).
void reach(mobile::Function& function, std::vector<mobile::Function*>& found) {
  if (std::find(found.begin(), found.end(), &function) != found.end()) {
    return;
  }
  found.push_back(&function);
  const mobile::Code& code = function.get_code();
  for (const torch::jit::Instruction& instruction : code.instructions_) {
    if (instruction.op == torch::jit::CALL) {
      reach(*code.functions_.at(size_t(instruction.X)), found);
    }
  }
}

// ---- Classes in schemas ----

void record_classes(const std::vector<c10::Argument>& arguments) {
  for (const c10::Argument& argument : arguments) {
    const std::string type = argument.type()->annotation_str();
    if (type.find("__torch__") != std::string::npos) {
      recording.custom_classes.emplace(class_name(type), 0);
    }
  }
}

// As upstream's recordCustomClassesFromOpSchemas(): some loads never look the class up.
void record_classes_of_operators() {
  std::set<std::string> names;
  for (const auto& root : recording.root_operators) {
    names.insert(root.first);
  }
  for (const auto& called : recording.model.operators) {
    names.insert(called.first);
  }
  for (const std::string& name : names) {
    const size_t dot = name.find('.', name.find("::"));
    const c10::OperatorName op(name.substr(0, dot),
                               dot == std::string::npos ? "" : name.substr(dot + 1));
    if (const auto jit_operator = torch::jit::findOperatorFor(op)) {
      record_classes(jit_operator->schema().arguments());
      record_classes(jit_operator->schema().returns());
    }
    const auto handle = c10::Dispatcher::singleton().findSchema(op);
    if (handle) {
      record_classes(handle->schema().arguments());
      record_classes(handle->schema().returns());
    }
  }
}

// ---- Output ----

void write_counts(json::Writer& out, const char* key,
                  const std::map<std::string, int64_t>& counts) {
  out.key(key).open('{');
  for (const auto& entry : counts) {
    out.key(entry.first).integer(entry.second);
  }
  out.close('}');
}

void write_table(json::Writer& out, const char* key,
                 const std::map<std::string, std::map<std::string, int64_t>>& table) {
  out.key(key).open('{');
  for (const auto& row : table) {
    write_counts(out, row.first.c_str(), row.second);
  }
  out.close('}');
}

void write_work(json::Writer& out) {
  out.key("work").open('{');
  for (const auto& entry : recording.work) {
    const Work& work = entry.second;
    out.key(entry.first).open('{').key("inputs").integer(work.inputs);
    out.key("outputs").integer(work.outputs).key("products").integer(work.products).close('}');
  }
  out.close('}');
}

void write_names(json::Writer& out, const char* key,
                 const std::map<std::string, int64_t>& names) {
  out.key(key).open('[');
  for (const auto& entry : names) {
    out.string(entry.first);
  }
  out.close(']');
}

void consume_tensors(const c10::IValue& value) {
  if (value.isTensor() && value.toTensor().defined()) {
    consume(value.toTensor());
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      consume_tensors(item);
    }
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) {
      consume_tensors(item);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      consume_tensors(entry.value());
    }
  }
}

// Runs set-up work: its usage goes into its own section.
template <class Work>
void as_setup(Work work) {
  phase = Phase::Setup;
  const c10::InferenceMode guard; // as an app has, around its models
  work();
  phase = Phase::Model;
}

} // namespace

void Recorder::before_load() {
  hook_operators();
  hook(at::RecordScope::KERNEL_FUNCTION_DTYPE, kernel_started);
  hook(at::RecordScope::CUSTOM_CLASS, class_loaded);
  hook(at::RecordScope::BUILD_FEATURE, feature_required);
  as_setup([] { recording.setup_failures = make_setup_calls(); });
}

void Recorder::loaded(lta_module* module) {
  recording.bytecode_version = module->module.bytecode_version();
  std::vector<mobile::Function*> functions;
  for (const auto& function : module->module.compilation_unit().methods()) {
    reach(*function, functions);
  }
  for (mobile::Function* function : functions) {
    for (const c10::OperatorName& name : function->get_code().op_names_) {
      recording.root_operators.emplace(
          c10::toString(name), RootOperator{name.name, name.overload_name, 0});
    }
    wrap(*function);
  }
}

void Recorder::saw(const lta_value* value) {
  as_setup([&] {
    try {
      consume_tensors(value->value);
    } catch (const c10::Error& error) {
      recording.setup_failures.emplace_back("copy_ to itself", error.what_without_backtrace());
    }
  });
}

void Recorder::repeating(bool on) {
  phase = on ? Phase::Repeat : Phase::Model;
}

void Recorder::write(json::Writer& out) {
  record_classes_of_operators();
  out.key("trace").open('{').key("root_operators").open('[');
  for (const auto& entry : recording.root_operators) {
    const RootOperator& root = entry.second;
    out.open('{').key("name").string(root.name).key("overload").string(root.overload);
    out.key("called").boolean(root.calls > 0).key("calls").integer(root.calls).close('}');
  }
  out.close(']');
  write_counts(out, "called_operators", recording.model.operators);
  write_counts(out, "setup_operators", recording.setup.operators);
  write_table(out, "kernel_tags", recording.model.kernel_tags);
  write_table(out, "setup_kernel_tags", recording.setup.kernel_tags);
  write_names(out, "custom_classes", recording.custom_classes);
  write_names(out, "build_features", recording.build_features);
  write_work(out);
  out.key("setup_failures").open('[');
  for (const auto& failure : recording.setup_failures) {
    out.open('{').key("call").string(failure.first).key("text").string(failure.second).close('}');
  }
  out.close(']').key("failed_in").open('[');
  for (const std::string& name : recording.failed_in) {
    out.string(name);
  }
  out.close(']').key("bytecode_version").integer(recording.bytecode_version).close('}');
}

} // namespace tracer
