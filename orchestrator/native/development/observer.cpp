// See observer.h. Part of the development library: it asks PyTorch itself.
#include "observer.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <ATen/record_function.h>

#if defined(PYTORCH_DISABLE_PER_OP_PROFILING) || !defined(ENABLE_RECORD_KERNEL_FUNCTION_DTYPE)
#error "the development library is compiled with the tracing flags: see tracer/recorder.h"
#endif

namespace {

using Clock = std::chrono::steady_clock;

struct Called {
  int64_t calls = 0;
  double microseconds = 0;
};

std::map<std::string, Called> operators;
std::map<std::string, std::map<std::string, int64_t>> kernel_tags; // tag -> dtype -> times
std::mutex lock; // over both; an operator may run on threads of its own
bool counting = true;

// An operator that is running.
struct Frame {
  std::string name;
  Clock::time_point start;
  double callees = 0; // microseconds
};

thread_local std::vector<Frame> frames;

// Of one call; its end finds that there was a start.
struct Seen : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> started(const at::RecordFunction& function) {
  const auto name = function.operator_name();
  if (!counting || !name) {
    return nullptr;
  }
  frames.push_back({c10::toString(*name), Clock::now()});
  return std::make_unique<Seen>();
}

void ended(const at::RecordFunction&, at::ObserverContext* context) {
  if (!context || frames.empty()) {
    return;
  }
  const Frame frame = std::move(frames.back());
  frames.pop_back();
  const double all =
      std::chrono::duration<double, std::micro>(Clock::now() - frame.start).count();
  if (!frames.empty()) {
    frames.back().callees += all;
  }
  const std::lock_guard<std::mutex> guard(lock);
  Called& called = operators[frame.name];
  ++called.calls;
  called.microseconds += all - frame.callees;
}

// The name is "tag$Dtype"; the scope is over before the kernel begins.
std::unique_ptr<at::ObserverContext> chosen(const at::RecordFunction& function) {
  if (counting) {
    const std::string name = function.name();
    const size_t dollar = name.rfind('$');
    const std::lock_guard<std::mutex> guard(lock);
    ++kernel_tags[name.substr(0, dollar)]
                 [dollar == std::string::npos ? "" : name.substr(dollar + 1)];
  }
  return nullptr;
}

class Times : public driver::Observer {
 public:
  void before_load() override {
    at::addGlobalCallback(at::RecordFunctionCallback(started, ended)
                              .scopes({at::RecordScope::FUNCTION}));
    at::addGlobalCallback(at::RecordFunctionCallback(chosen).scopes(
        {at::RecordScope::KERNEL_FUNCTION_DTYPE}));
  }
  void repeating(bool on) override { counting = !on; }
  void write(json::Writer& out) override {
    out.key("operators").open('{');
    for (const auto& entry : operators) {
      out.key(entry.first).open('{').key("calls").integer(entry.second.calls);
      out.key("microseconds").real(entry.second.microseconds).close('}');
    }
    out.close('}').key("kernel_tags").open('{');
    for (const auto& tag : kernel_tags) {
      out.key(tag.first).open('{');
      for (const auto& dtype : tag.second) {
        out.key(dtype.first).integer(dtype.second);
      }
      out.close('}');
    }
    out.close('}');
  }
};

} // namespace

extern "C" driver::Observer* lta_development_observer() {
  static Times times;
  return &times;
}
