// The development library's observers, for its model runner; see main.cpp.
#pragma once

#include "driver.h"

// Counts and times the operators that the dispatcher is asked for, and adds to the output:
//   "operators":{"aten::add.Tensor":{"calls":n,"microseconds":x}...},
//   "kernel_tags":{"add_stub":{"Float":times...}...}
// The latter are the AT_DISPATCH_* tags, each with the dtype that was taken, as the recorder's. The
// time is an operator's own, without that of those that it calls. Runs that are repeated for
// their time alone are not counted.
extern "C" __attribute__((visibility("default"))) driver::Observer* lta_development_observer();

// The tracer's recorder, in a library that has been extended with a shard: its set-up calls are
// operators like others. Adds to the output what a tracer does: "trace" and "coverage".
extern "C" __attribute__((visibility("default"))) driver::Observer* lta_development_recorder();
