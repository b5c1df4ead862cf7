// Read first by torch/csrc/jit/mobile/import.cpp: as capi/checked_import.h. Besides, PyTorch 2 keeps the
// function that all of its loaders end in to itself, and calls the loader of models in flatbuffers,
// of which we have neither the unit nor its library.
#pragma once

#include "capi/checked_import.h"

#include <torch/csrc/jit/mobile/flatbuffer_loader.h>

namespace torch::jit {

namespace {

// In import.cpp: `_load_for_mobile_impl`, by another name.
mobile::Module load_for_mobile_here(
    std::unique_ptr<caffe2::serialize::ReadAdapterInterface> reader,
    std::optional<c10::Device> device,
    ExtraFilesMap& extra_files,
    uint64_t module_load_options);

} // namespace

// For capi.cpp.
mobile::Module _load_for_mobile_impl(
    std::unique_ptr<caffe2::serialize::ReadAdapterInterface> reader,
    std::optional<c10::Device> device,
    ExtraFilesMap& extra_files,
    uint64_t module_load_options) {
  return load_for_mobile_here(std::move(reader), device, extra_files, module_load_options);
}

template <class... Arguments>
[[noreturn]] mobile::Module no_flatbuffers(const Arguments&...) {
  TORCH_CHECK(false, "Flatbuffer input file but the build hasn't enabled flatbuffer");
}

} // namespace torch::jit

#define _load_for_mobile_impl load_for_mobile_here
#define parse_and_initialize_mobile_module no_flatbuffers
#define load_mobile_module_from_file no_flatbuffers
