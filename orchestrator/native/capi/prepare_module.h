// What a library does with every module that it has loaded.
#pragma once

namespace torch {
namespace jit {
namespace mobile {
class Module;
} // namespace mobile
} // namespace jit
} // namespace torch

namespace lta {

// Set when the library is loaded, by native/kernels/rewrite.cpp where a library has it; else null.
// Defined in model_checks.cpp, which every variant links.
extern void (*prepare_module)(torch::jit::mobile::Module& module);

// The same before it, set by native/kernels/shortcuts.cpp.
extern void (*shorten_module)(torch::jit::mobile::Module& module);

// What is done at the end of each run, and where a module is freed: set by native/kernels/spares.cpp.
extern void (*end_of_run)();
extern void (*end_of_module)();

} // namespace lta
