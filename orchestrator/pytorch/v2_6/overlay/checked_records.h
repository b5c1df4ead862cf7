// Read first by caffe2/serialize/inline_container.cc: as capi/checked_records.h, over the headers that
// this unit of PyTorch 2 includes.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <istream>
#include <ostream>
#include <sstream>
#include <thread>

#include <c10/core/Allocator.h>
#include <c10/core/Backend.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>
#include <c10/util/hash.h>
#include <caffe2/core/common.h>
#include <caffe2/serialize/file_adapter.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/istream_adapter.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <caffe2/serialize/versions.h>
#include <miniz.h>

#include "capi/model_checks.h"
#include "capi/model_memory.h"

namespace lta {

inline size_t record(size_t size) {
  expect(size <= size_t(PTRDIFF_MAX) / 2, "a record beyond all bounds");
  return record_bytes = size;
}

} // namespace lta

namespace c10 {

inline lta::RecordMemory record_memory(uint32_t crc) {
  return {crc};
}

} // namespace c10

// In PyTorchStreamReader::getRecord().
#define GetCPUAllocator() record_memory(stat.m_crc32)
#define allocate(size) allocate(::lta::record(size))
