// Records what a model uses while it runs: the tracer's eyes.
//
// Contract: linked into one executable with PyTorch objects that were compiled for tracing, that is
// without PYTORCH_DISABLE_PER_OP_PROFILING and with ENABLE_RECORD_KERNEL_FUNCTION_DTYPE, every unit
// alike: both change inline functions that the linker keeps one copy of, so that a single unit
// compiled otherwise can silence the recording of all.
//
// It watches four scopes of at::RecordFunction, as upstream's model_tracer does:
//   FUNCTION              every call through the dispatcher, boxed calls included, redispatches not
//                         (a redispatch is the same operator's next kernel)
//   KERNEL_FUNCTION_DTYPE the AT_DISPATCH_* tags, each with the dtype that was taken
//   CUSTOM_CLASS          classes that the loader looked up
//   BUILD_FEATURE         features that code asked for
// Operators that never reach the dispatcher (aten::len.t and other operators of the interpreter
// itself) appear in none of these. So the operator closures of the loaded bytecode are wrapped:
// that gives the calls of every root operator, and which of them never ran.
//
// Nothing here calls an operator, but for the set-up calls, which are recorded apart.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driver.h"
#include "libtorch_app.h"

namespace tracer {

// What was used, by name, in one phase.
struct Usage {
  std::map<std::string, int64_t> operators;                         // calls, "aten::add.Tensor"
  std::map<std::string, std::map<std::string, int64_t>> kernel_tags; // tag -> dtype -> times
};

// What the calls of operators worked on, summed over the calls that ran one kernel: the elements of
// the largest tensor that was given and of the largest that came out, and the multiply-adds where
// they multiply matrices. Counted, not timed: the same model on the same inputs does the same work
// on every machine, however busy it is.
struct Work {
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t products = 0;
};

struct RootOperator {
  std::string name;
  std::string overload;
  int64_t calls = 0;
};

struct Recording {
  Usage model; // loading and running
  Usage setup;
  std::map<std::string, RootOperator> root_operators;
  std::map<std::string, int64_t> custom_classes;
  std::map<std::string, int64_t> build_features;
  std::map<std::string, Work> work; // kernel tag -> what its calls worked on
  // Set-up calls that this runtime cannot make: what they are and why.
  std::vector<std::pair<std::string, std::string>> setup_failures;
  // The operators that were running when the model's first error was raised, the outermost first.
  std::vector<std::string> failed_in;
  int64_t bytecode_version = 0;
};

// One per process: PyTorch's callbacks are functions without data.
class Recorder : public driver::Observer {
 public:
  // Hooks PyTorch and makes the set-up calls (see setup.h).
  void before_load() override;
  // Wraps the module's operators; with that, root operators are known.
  void loaded(lta_module* module) override;
  // What an app does with its tensors around a run, as set-up.
  void saw(const lta_value* value) override;
  // While on, nothing is counted.
  void repeating(bool on) override;
  void write(json::Writer& out) override;
};

} // namespace tracer
