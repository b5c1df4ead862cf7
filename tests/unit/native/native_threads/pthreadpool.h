// All that kernels/pool.h names of pthreadpool.
#pragma once

#include <cstddef>
#include <cstdint>

typedef struct pthreadpool* pthreadpool_t;
typedef void (*pthreadpool_task_1d_t)(void*, size_t);

extern "C" {
pthreadpool_t pthreadpool_create(size_t threads);
size_t pthreadpool_get_threads_count(pthreadpool_t pool);
void pthreadpool_parallelize_1d(pthreadpool_t pool, pthreadpool_task_1d_t task, void* of, size_t count,
                                uint32_t flags);
}
