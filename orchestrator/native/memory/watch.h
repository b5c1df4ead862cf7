// What a model takes of memory in a delivered library: when, and because of which instruction.
//
// Contract: the library is the delivered one, to the byte. heap.h counts what it allocates. Which
// operator runs is known since each instruction that calls one gets an operator of its own in the
// loaded module's bytecode, which says so and calls what the library has there: PyTorch's operator,
// a shortcut (kernels/shortcuts.h) or a Site (kernels/module_sites.h). That reads the module as PyTorch's
// headers lay it out, and calls no function of the library but the C API's. Adds to the driver's output
//   "memory":{
//     "library":n            before a model is loaded: tables of operators and such
//     "loaded":{"heap":n,"mapped":n,"peak":n}
//     "runs":[{"method":m,"index":i,"again":b,"ended":b,
//              "before":n,"inputs":n,"peak":n,"at":place|null,
//              "of":{"model":n,"earlier":n,"run":n},
//              "blocks":[{"bytes":n,"of":"model"|"earlier"|"run","stays":b,"at":place|null,
//                         "dtype":d|null,"shape":[n...]|null}...],
//              "others":{"blocks":n,"bytes":n},
//              "after":{"model":n,"runs":n}}...]}
//   place: {"function":number in the model's file,"instruction":n,"operator":name}
// All are bytes that the model has besides "library". Of a run:
//   again: the same call once more
//   before, after: without results and inputs; "model" was there once it was loaded, "runs" is what
//     runs left: packed weights, state
//   inputs: the app's own memory, in no other number
//   at: the instruction that reached the peak
//   of: what there was then, of loading, of earlier runs, of this one
//   blocks: the largest of it; "others" the rest. stays: it is there still after the run
#pragma once

#include "driver.h"

namespace memory {

driver::Observer& observer();

} // namespace memory
