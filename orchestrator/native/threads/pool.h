// The threads of one library: what its parallel regions run on, and how many they may be.
//
// A region is a number of slots, each a call of one function, done before `share` returns. How a
// computation is cut into slots depends on `threads()` alone, never on which threads were free: equal
// calls give equal results.
//
//   - No thread is started before the first region that has several slots.
//   - A region's slots compute in the floating-point mode of its caller: rounding, flush-to-zero.
//   - One region runs on the workers at a time. Another caller's runs where it is called.
//   - A region in a region runs where it is called.
//   - Workers sleep. Before, they look for the next region for 200 microseconds at most.
//   - After a fork the child has no workers, and starts its own when it needs them.
//   - The workers end with the library: when it is unloaded, or when the process ends.
#pragma once

namespace lta {

constexpr int kMostThreads = 1024;

// How many threads a run of a model may use, the caller's own among them.
int wanted_threads();
// False where it is not a number that this library can do: the last one stays.
bool set_wanted_threads(int count);

// Around all that a model runs: `threads()` stays as it was when the outermost run began, whoever
// sets another number meanwhile.
void begin_run();
void end_run();

// How many slots a region of this thread is worth: 1 outside of a run.
int threads();
// Whether this thread is in a region.
bool in_region();

using Task = void (*)(void* of, int slot);
// Calls task(of, slot) for all slots from 0 on, and returns when all have. A task throws nothing.
void share(int slots, Task task, void* of);

} // namespace lta
