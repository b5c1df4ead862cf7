// See driver.h.
#include "driver.h"

#include <algorithm>
#include <chrono>

#include <locale.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include "cpu_levels.h"
#include "values.h"

// Weak: a library from before this function is run too (`orchestrate fits`).
extern "C" __attribute__((weak)) const char* lta_selection_digest(void);

namespace driver {

namespace {

struct Options {
  std::string model;
  std::string inputs = "bundled";
  std::string output;
  std::string addon;
  int warmup = 3;
  int repeat = 30;
  bool time = false;
  bool args = true;
  Layout layout = Layout::Usual;
};

int usage() {
  std::fputs(
      "usage: driver --model M.ptl --output out.json [--inputs inputs.json|bundled]\n"
      "              [--extend addon.so] [--time] [--repeat N] [--warmup N] [--no-args]\n"
      "              [--layout part|channels-last|nudged]\n"
      "  --inputs   a list of {\"method\":..,\"args\":[value...]}, or the model's own (default)\n"
      "  --extend   an add-on that the library is extended with first\n"
      "  --time     repeat each method's first run (--repeat, after --warmup) and write\n"
      "             its median and least time\n"
      "  --no-args  leave the arguments out of the output\n"
      "  --layout   the inputs are parts of larger tensors, or their floats the next ones\n",
      stderr);
  return 2;
}

bool to_count(const char* text, int& count) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  count = int(value);
  return *text != '\0' && *end == '\0' && value >= 0 && value <= 1000000;
}

bool to_layout(const std::string& name, Layout& layout) {
  layout = name == "part" ? Layout::Part
      : name == "nudged"  ? Layout::Nudged
                          : Layout::ChannelsLast;
  return name == "part" || name == "nudged" || name == "channels-last";
}

bool parse_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    bool takes_value = true;
    bool good = true;
    if (name == "--model") options.model = value;
    else if (name == "--inputs") options.inputs = value;
    else if (name == "--output") options.output = value;
    else if (name == "--extend") options.addon = value;
    else if (name == "--layout") good = to_layout(value, options.layout);
    else if (name == "--repeat") good = to_count(value, options.repeat) && options.repeat > 0;
    else if (name == "--warmup") good = to_count(value, options.warmup);
    else {
      takes_value = false;
      if (name == "--time") options.time = true;
      else if (name == "--no-args") options.args = false;
      else good = false;
    }
    if (!good || (takes_value && ++i >= argc)) {
      return false;
    }
  }
  return !options.model.empty() && !options.output.empty();
}

std::vector<Observer*>& watching() {
  static std::vector<Observer*> all; // objects in other files add to it before main()
  return all;
}

// One observer and all that watch besides.
class Observers : public Observer {
 public:
  explicit Observers(Observer& first) : all_{&first} {
    all_.insert(all_.end(), watching().begin(), watching().end());
  }
  void before_load() override {
    for (Observer* one : all_) one->before_load();
  }
  void loaded(lta_module* module) override {
    for (Observer* one : all_) one->loaded(module);
  }
  void saw(const lta_value* value) override {
    for (Observer* one : all_) one->saw(value);
  }
  void run_begins(const std::string& method, int64_t index, bool again) override {
    for (Observer* one : all_) one->run_begins(method, index, again);
  }
  void run_ended(bool ended) override {
    for (Observer* one : all_) one->run_ended(ended);
  }
  void repeating(bool on) override {
    for (Observer* one : all_) one->repeating(on);
  }
  void unloading() override {
    for (Observer* one : all_) one->unloading();
  }
  void write(json::Writer& out) override {
    for (Observer* one : all_) one->write(out);
  }

 private:
  std::vector<Observer*> all_;
};

struct Call {
  std::string method;
  int64_t index; // among the calls of its method
  std::vector<Handle> args;
};

struct FreeModule {
  void operator()(lta_module* module) const { lta_module_free(module); }
};

Handle call(lta_module* module, const std::string& method, const std::vector<Handle>& args) {
  lta_value* result = nullptr;
  check(lta_module_run(module, method.c_str(), pointers(args).data(), args.size(), &result));
  return Handle(result);
}

bool has_method(const lta_module* module, const char* name) {
  for (size_t i = 0; i < lta_module_method_count(module); ++i) {
    if (std::strcmp(lta_module_method_name(module, i), name) == 0) {
      return true;
    }
  }
  return false;
}

// Adds a call for each tuple in the list that `getter` returns.
void add_bundled(lta_module* module, const std::string& method, const std::string& getter,
                 std::vector<Call>& calls) {
  const Handle inputs = call(module, getter, {});
  int64_t index = 0;
  for (const Handle& input : items_of(inputs.get())) {
    calls.push_back({method, index++, items_of(input.get())});
  }
}

// The getter's name in {"get_inputs_function_name": [name], "info": [...]}.
std::string getter_in(const lta_value* info) {
  size_t size = 0;
  check(lta_value_size(info, &size));
  for (size_t i = 0; i < size; ++i) {
    lta_value* key = nullptr;
    lta_value* names = nullptr;
    check(lta_value_entry(info, i, &key, &names));
    const Handle key_owner(key);
    const Handle names_owner(names);
    if (string_of(key) == "get_inputs_function_name") {
      return string_of(items_of(names).at(0).get());
    }
  }
  throw ApiError{"NO_INPUTS", "the bundled inputs name no getter", ""};
}

// As upstream's MobileModelRunner finds them (torch/csrc/jit/mobile/model_tracer).
std::vector<Call> bundled_calls(lta_module* module) {
  std::vector<Call> calls;
  if (has_method(module, "get_bundled_inputs_functions_and_info")) {
    const Handle functions = call(module, "get_bundled_inputs_functions_and_info", {});
    size_t size = 0;
    check(lta_value_size(functions.get(), &size));
    for (size_t i = 0; i < size; ++i) {
      lta_value* name = nullptr;
      lta_value* info = nullptr;
      check(lta_value_entry(functions.get(), i, &name, &info));
      const Handle name_owner(name);
      const Handle info_owner(info);
      add_bundled(module, string_of(name), getter_in(info), calls);
    }
  } else if (has_method(module, "get_all_bundled_inputs")) {
    add_bundled(module, "forward", "get_all_bundled_inputs", calls);
  }
  if (calls.empty()) {
    throw ApiError{"NO_INPUTS", "the model has no bundled inputs", ""};
  }
  return calls;
}

std::vector<Call> read_calls(const json::Value& list) {
  std::vector<Call> calls;
  for (const json::Value& item : list.expect(json::Type::Array, "a list of calls").items) {
    Call call{item.at("method").string(), 0, {}};
    for (const Call& earlier : calls) {
      call.index += earlier.method == call.method;
    }
    for (const json::Value& arg : item.at("args").expect(json::Type::Array, "arguments").items) {
      call.args.push_back(read_value(arg));
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

void write_error(json::Writer& out, const ApiError& error) {
  out.open('{').key("code").string(error.code).key("text").string(error.text);
  const size_t line = error.names.find('\n');
  if (error.code == "MISSING_OPERATOR") {
    out.key("operators").open('[');
    for (size_t at = 0; at < error.names.size();) {
      const size_t end = std::min(error.names.find('\n', at), error.names.size());
      out.string(error.names.substr(at, end - at));
      at = end + 1;
    }
    out.close(']');
  } else if (error.code == "MISSING_DTYPE" && line != std::string::npos) {
    out.key("kernel_tag").string(error.names.substr(0, line));
    out.key("dtype").string(error.names.substr(line + 1));
  }
  out.close('}');
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// A call that is watched.
Handle run(lta_module* module, const Call& what, Observer& observer, bool again) {
  const std::vector<const lta_value*> args = pointers(what.args);
  lta_value* result = nullptr;
  observer.run_begins(what.method, what.index, again);
  const lta_status status =
      lta_module_run(module, what.method.c_str(), args.data(), args.size(), &result);
  observer.run_ended(status == LTA_OK);
  check(status);
  return Handle(result);
}

std::vector<double> measure(lta_module* module, const Call& what, const Options& options,
                            Observer& observer) {
  for (int i = 0; i < options.warmup; ++i) {
    run(module, what, observer, true);
  }
  std::vector<double> microseconds;
  for (int i = 0; i < options.repeat; ++i) {
    const double start = seconds();
    const Handle result = run(module, what, observer, true);
    microseconds.push_back((seconds() - start) * 1e6);
  }
  std::sort(microseconds.begin(), microseconds.end());
  return microseconds;
}

// Runs one call and writes its object; false if it failed.
bool run_call(json::Writer& out, lta_module* module, const Call& what, const Options& options,
              bool timed, Observer& observer) {
  out.open('{').key("method").string(what.method).key("index").integer(what.index);
  json::Writer args;
  json::Writer output;
  std::vector<double> times;
  bool good = true;
  ApiError error;
  try {
    // Before the run, which may write into its arguments.
    args.open('[');
    for (const Handle& arg : what.args) {
      write_value(args, arg.get());
      observer.saw(arg.get());
    }
    args.close(']');
    {
      const Handle result = run(module, what, observer, false);
      observer.saw(result.get());
      write_value(output, result.get());
    }
    if (timed) {
      observer.repeating(true);
      times = measure(module, what, options, observer);
      observer.repeating(false);
    }
  } catch (const ApiError& caught) {
    observer.repeating(false);
    good = false;
    error = caught;
  }
  if (options.args) {
    out.key("args");
    good || args.complete() ? out.embed(args) : out.null();
  }
  out.key("output");
  good ? out.embed(output) : out.null();
  out.key("error");
  good ? out.null() : (write_error(out, error), out);
  out.key("microseconds");
  times.empty() ? out.null() : out.real(times[times.size() / 2]);
  out.key("microseconds_min");
  times.empty() ? out.null() : out.real(times[0]);
  out.close('}');
  return good;
}

bool read_file(const std::string& path, std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) {
    return false;
  }
  char buffer[65536];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof buffer, file)) > 0) {
    text.append(buffer, count);
  }
  const bool good = std::ferror(file) == 0;
  std::fclose(file);
  return good;
}

bool write_file(const std::string& path, const std::string& text) {
  const std::string partial = path + ".partial";
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (!file) {
    return false;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written || std::rename(partial.c_str(), path.c_str()) != 0) {
    std::remove(partial.c_str());
    return false;
  }
  return true;
}

// Writes "runs" and "error"; false if anything failed.
bool run_model(json::Writer& out, const Options& options, const json::Value* inputs,
               Observer& observer) {
  bool good = true;
  out.key("runs").open('[');
  try {
    if (!options.addon.empty()) {
      check(lta_library_extend(options.addon.c_str()));
    }
    observer.before_load();
    lta_module* loaded = nullptr;
    check(lta_module_load(options.model.c_str(), &loaded));
    const std::unique_ptr<lta_module, FreeModule> module(loaded);
    observer.loaded(loaded);
    for (Call& what : inputs ? read_calls(*inputs) : bundled_calls(loaded)) {
      for (Handle& arg : what.args) {
        arg = laid_out(arg.get(), options.layout);
      }
      const bool timed = options.time && what.index == 0;
      good = run_call(out, loaded, what, options, timed, observer) && good;
    }
    observer.unloading();
    out.close(']').key("error").null();
  } catch (const ApiError& error) {
    good = false;
    out.close(']').key("error");
    write_error(out, error);
  }
  observer.write(out);
  return good;
}

// Errors work: a library whose exceptions are caught by nobody runs every good model, and ends its
// app at the first bad one. It ends this program here.
bool refuses_what_is_no_model() {
  static const char text[] = "no model";
  lta_module* none = nullptr;
  return lta_module_load_memory(text, sizeof text, &none) == LTA_LOAD_FAILED && none == nullptr;
}

} // namespace

Watching::Watching(Observer& observer) {
  watching().push_back(&observer);
}

int run(int argc, char** argv, Observer& observer) {
  // JSON has points: an app's own sources may have set a locale with commas.
  uselocale(newlocale(LC_ALL_MASK, "C", nullptr));
  Observers observers(observer);
  Options options;
  if (!parse_options(argc, argv, options)) {
    return usage();
  }
  if (!refuses_what_is_no_model()) {
    std::fprintf(stderr, "driver: the library takes for a model what is none\n");
    return 2;
  }
  try {
    json::Value inputs;
    const bool bundled = options.inputs == "bundled";
    std::string text;
    if (!bundled) {
      if (!read_file(options.inputs, text)) {
        throw json::Error("cannot be read");
      }
      inputs = json::parse(text);
    }
    json::Writer out;
    out.open('{').key("model").string(options.model).key("selection");
    lta_selection_digest ? out.string(lta_selection_digest()) : out.null();
    out.key("cpu_levels").open('[');
    for (const CpuLevel& level : kCpuLevels) {
      if (level.usable()) {
        out.string(level.name);
      }
    }
    out.close(']');
    const bool good = run_model(out, options, bundled ? nullptr : &inputs, observers);
    out.close('}');
    if (!write_file(options.output, out.text() + "\n")) {
      std::fprintf(stderr, "driver: %s: cannot be written\n", options.output.c_str());
      return 2;
    }
    return good ? 0 : 1;
  } catch (const json::Error& error) {
    std::fprintf(stderr, "driver: %s: %s\n", options.inputs.c_str(), error.what());
    return 2;
  }
}

} // namespace driver
