// Read first by init_qnnpack.cpp, which is in every library that calls QNNPACK: the engine that
// quantised operators and packed weights ask for is QNNPACK there.
//
// Upstream lists the engines in Context.cpp. That unit is every app's, and of the same object for
// all; so the choice is made here, when the library is loaded, and in the place where
// Context::setQEngine keeps it. Context::supportedQEngines() does not tell of it; only setQEngine
// asks that, and nobody calls it here.
#pragma once

#include <ATen/Context.h>

namespace lta {

using EngineMember = c10::optional<at::QEngine> at::Context::*;

inline EngineMember engine_member();

// An explicit instantiation may name a private member ([temp.spec.general]).
template <EngineMember member>
struct EngineOf {
  friend EngineMember engine_member() {
    return member;
  }
};
template struct EngineOf<&at::Context::quantized_engine>;

}  // namespace lta

static const bool lta_engine_chosen = [] {
  at::globalContext().*lta::engine_member() = at::kQNNPACK;
  return true;
}();
