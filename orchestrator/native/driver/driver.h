// Runs a model on its inputs through the C API and writes what came out as JSON.
//
// Contract: see usage() in driver.cpp for the command line, values.h for the format of values. The
// output file is written whole or not at all, and also when the model fails:
//   {"model":path,"selection":digest|null,"cpu_levels":[name...],
//    "runs":[{"method":m,"index":i,"args":[value...],"output":value|null,"error":error|null,
//             "microseconds":median|null,"microseconds_min":x|null}...],
//    "error":error|null}
//   selection: lta_selection_digest()
//   cpu_levels: what the library may choose from here (cpu_levels.h), lowest first
//   error: {"code":"MISSING_OPERATOR","text":t,"operators":[...]}, "kernel_tag" and "dtype" instead
//   of "operators" for MISSING_DTYPE, neither for other codes.
// Exit codes: 0 everything ran; 1 the model, or a run, failed; 2 wrong usage.
#pragma once

#include <string>

#include "json.h"
#include "libtorch_app.h"

namespace driver {

// What the tracer sees of the driver's work. The driver itself watches nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  // The library is extended; no model is loaded.
  virtual void before_load() {}
  virtual void loaded(lta_module* /*module*/) {}
  // An argument before, and a result after, each run that is not repeated.
  virtual void saw(const lta_value* /*value*/) {}
  // Before each run, after its arguments were seen, and after it, before its result is. again: it is
  // repeated for its time alone.
  virtual void run_begins(const std::string& /*method*/, int64_t /*index*/, bool /*again*/) {}
  virtual void run_ended(bool /*ended*/) {}
  // Between on and off, a run is repeated for its time alone.
  virtual void repeating(bool /*on*/) {}
  // All runs are over; the module and their arguments are gone after this.
  virtual void unloading() {}
  // Adds members to the output's top object.
  virtual void write(json::Writer& /*out*/) {}
};

// Makes an observer see every run, after the one that is passed to it. Both have static storage.
struct Watching {
  explicit Watching(Observer& observer);
};

int run(int argc, char** argv, Observer& observer);

} // namespace driver
