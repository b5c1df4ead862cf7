// Stands in for pthreadpool's header, as far as QNNPACK and its callers in PyTorch go: every task
// where it is asked for, whatever the pool.
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pthreadpool* pthreadpool_t;

typedef void (*pthreadpool_function_1d_t)(void*, size_t);
typedef void (*pthreadpool_function_1d_tiled_t)(void*, size_t, size_t);
typedef void (*pthreadpool_function_2d_t)(void*, size_t, size_t);
typedef void (*pthreadpool_function_3d_tiled_t)(
    void*, size_t, size_t, size_t, size_t, size_t, size_t);
typedef void (*pthreadpool_function_4d_tiled_t)(
    void*, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t);

// caffe2/utils/threadpool/pthreadpool-cpp.h names it in a type that nobody makes.
void pthreadpool_destroy(pthreadpool_t pool);

static inline size_t lta_tile(size_t start, size_t range, size_t tile) {
  return range - start < tile ? range - start : tile;
}

static inline void pthreadpool_compute_1d(
    pthreadpool_t pool, pthreadpool_function_1d_t task, void* argument, size_t range) {
  (void)pool;
  for (size_t i = 0; i < range; i++) {
    task(argument, i);
  }
}

static inline void pthreadpool_compute_1d_tiled(
    pthreadpool_t pool,
    pthreadpool_function_1d_tiled_t task,
    void* argument,
    size_t range,
    size_t tile) {
  (void)pool;
  for (size_t i = 0; i < range; i += tile) {
    task(argument, i, lta_tile(i, range, tile));
  }
}

static inline void pthreadpool_compute_2d(
    pthreadpool_t pool,
    pthreadpool_function_2d_t task,
    void* argument,
    size_t range_i,
    size_t range_j) {
  (void)pool;
  for (size_t i = 0; i < range_i; i++) {
    for (size_t j = 0; j < range_j; j++) {
      task(argument, i, j);
    }
  }
}

static inline void pthreadpool_compute_3d_tiled(
    pthreadpool_t pool,
    pthreadpool_function_3d_tiled_t task,
    void* argument,
    size_t range_i,
    size_t range_j,
    size_t range_k,
    size_t tile_i,
    size_t tile_j,
    size_t tile_k) {
  (void)pool;
  for (size_t i = 0; i < range_i; i += tile_i) {
    for (size_t j = 0; j < range_j; j += tile_j) {
      for (size_t k = 0; k < range_k; k += tile_k) {
        task(
            argument,
            i,
            j,
            k,
            lta_tile(i, range_i, tile_i),
            lta_tile(j, range_j, tile_j),
            lta_tile(k, range_k, tile_k));
      }
    }
  }
}

static inline void pthreadpool_compute_4d_tiled(
    pthreadpool_t pool,
    pthreadpool_function_4d_tiled_t task,
    void* argument,
    size_t range_i,
    size_t range_j,
    size_t range_k,
    size_t range_l,
    size_t tile_i,
    size_t tile_j,
    size_t tile_k,
    size_t tile_l) {
  (void)pool;
  for (size_t i = 0; i < range_i; i += tile_i) {
    for (size_t j = 0; j < range_j; j += tile_j) {
      for (size_t k = 0; k < range_k; k += tile_k) {
        for (size_t l = 0; l < range_l; l += tile_l) {
          task(
              argument,
              i,
              j,
              k,
              l,
              lta_tile(i, range_i, tile_i),
              lta_tile(j, range_j, tile_j),
              lta_tile(k, range_k, tile_k),
              lta_tile(l, range_l, tile_l));
        }
      }
    }
  }
}

#ifdef __cplusplus
}

// What the callers in PyTorch hand to QNNPACK (caffe2/utils/threadpool/pthreadpool-cpp.h): no pool.
namespace caffe2 {
inline pthreadpool_t pthreadpool_() {
  return nullptr;
}
}  // namespace caffe2
#endif
