// Stands in for clog's header: QNNPACK says nothing. Its caller turns a status that is no success
// into an error (TORCH_CHECK, TORCH_INTERNAL_ASSERT).
#pragma once

#include <stdlib.h>

#define LTA_CLOG_SILENT(name) \
  static inline void name(const char* format, ...) { (void)format; }

#define CLOG_DEFINE_LOG_DEBUG(name, module, level) LTA_CLOG_SILENT(name)
#define CLOG_DEFINE_LOG_INFO(name, module, level) LTA_CLOG_SILENT(name)
#define CLOG_DEFINE_LOG_WARNING(name, module, level) LTA_CLOG_SILENT(name)
#define CLOG_DEFINE_LOG_ERROR(name, module, level) LTA_CLOG_SILENT(name)
#define CLOG_DEFINE_LOG_FATAL(name, module, level) \
  static inline void name(const char* format, ...) { \
    (void)format; \
    abort(); \
  }
