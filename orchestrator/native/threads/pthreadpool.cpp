// What XNNPACK asks of pthreadpool, on the library's own threads: instead of pthreadpool's src/shim.c,
// which has none.
//
// NULL for a pool is the caller's thread alone, as pthreadpool has it, and any other pool is the
// library's. A computation's tiles are taken in blocks, by whoever is free: each tile is the same
// whoever computes it. Tasks that are told their thread run on the caller's, since they have room for
// as many threads as there were when their operator was shaped.
#include "pool.h"

#include <stddef.h>
#include <stdint.h>

#include <initializer_list>

#include <pthreadpool.h>

struct pthreadpool {};

namespace {

constexpr int kMostDims = 6;
// So many blocks for each thread: who comes late has little left to wait for.
constexpr size_t kBlocks = 8;

struct Tiles {
  void* task;
  void* argument;
  int dims;
  size_t range[kMostDims];
  size_t tile[kMostDims]; // 1 where the task is not told a tile's size
  int tiled;              // so many of the last dimensions
  bool has_id, has_thread;
  uint32_t id;
  size_t counts[kMostDims], total, block, next;
};

void call(const Tiles& tiles, const size_t* at) {
  size_t a[1 + kMostDims + 2];
  int n = 0;
  if (tiles.has_thread) {
    a[n++] = 0;
  }
  for (int d = 0; d < tiles.dims; ++d) {
    a[n++] = at[d];
  }
  for (int d = tiles.dims - tiles.tiled; d < tiles.dims; ++d) {
    const size_t left = tiles.range[d] - at[d];
    a[n++] = left < tiles.tile[d] ? left : tiles.tile[d];
  }
  void* const of = tiles.argument;
  const uint32_t id = tiles.id;
#define TASK(...) reinterpret_cast<void (*)(__VA_ARGS__)>(tiles.task)
#define S size_t
  if (tiles.has_id) {
    switch (n) {
      case 1: return TASK(void*, uint32_t, S)(of, id, a[0]);
      case 2: return TASK(void*, uint32_t, S, S)(of, id, a[0], a[1]);
      case 3: return TASK(void*, uint32_t, S, S, S)(of, id, a[0], a[1], a[2]);
      case 4: return TASK(void*, uint32_t, S, S, S, S)(of, id, a[0], a[1], a[2], a[3]);
      case 5: return TASK(void*, uint32_t, S, S, S, S, S)(of, id, a[0], a[1], a[2], a[3], a[4]);
      default:
        return TASK(void*, uint32_t, S, S, S, S, S, S)(of, id, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
  }
  switch (n) {
    case 1: return TASK(void*, S)(of, a[0]);
    case 2: return TASK(void*, S, S)(of, a[0], a[1]);
    case 3: return TASK(void*, S, S, S)(of, a[0], a[1], a[2]);
    case 4: return TASK(void*, S, S, S, S)(of, a[0], a[1], a[2], a[3]);
    case 5: return TASK(void*, S, S, S, S, S)(of, a[0], a[1], a[2], a[3], a[4]);
    case 6: return TASK(void*, S, S, S, S, S, S)(of, a[0], a[1], a[2], a[3], a[4], a[5]);
    case 7:
      return TASK(void*, S, S, S, S, S, S, S)(of, a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
    default:
      return TASK(void*, S, S, S, S, S, S, S, S)(of, a[0], a[1], a[2], a[3], a[4], a[5], a[6],
                                                 a[7]);
  }
#undef S
#undef TASK
}

void run_block(const Tiles& tiles, size_t from, size_t to) {
  size_t at[kMostDims], rest = from;
  for (int d = tiles.dims; d-- > 0;) {
    at[d] = rest % tiles.counts[d] * tiles.tile[d];
    rest /= tiles.counts[d];
  }
  for (size_t i = from; i < to; ++i) {
    call(tiles, at);
    for (int d = tiles.dims; d-- > 0;) {
      at[d] += tiles.tile[d];
      if (at[d] < tiles.range[d]) {
        break;
      }
      at[d] = 0;
    }
  }
}

void run_slot(void* of, int) {
  auto& tiles = *static_cast<Tiles*>(of);
  for (;;) {
    const size_t from = __atomic_fetch_add(&tiles.next, tiles.block, __ATOMIC_RELAXED);
    if (from >= tiles.total) {
      return;
    }
    const size_t left = tiles.total - from;
    run_block(tiles, from, from + (left < tiles.block ? left : tiles.block));
  }
}

struct Kind {
  bool has_id, has_thread;
  uint32_t id;
};
constexpr Kind plain = {false, false, 0};
constexpr Kind with_thread = {false, true, 0};

// sizes: of all dimensions, then the tiles of the last `tiled` ones.
__attribute__((noinline)) void run(pthreadpool_t pool, void* task, void* argument,
                                   std::initializer_list<size_t> sizes, int tiled, Kind kind) {
  Tiles tiles;
  tiles.task = task;
  tiles.argument = argument;
  tiles.dims = int(sizes.size()) - tiled;
  tiles.tiled = tiled;
  tiles.has_id = kind.has_id;
  tiles.has_thread = kind.has_thread;
  tiles.id = kind.id;
  tiles.total = 1;
  const int first_tiled = tiles.dims - tiled;
  for (int d = 0; d < tiles.dims; ++d) {
    tiles.range[d] = sizes.begin()[d];
    tiles.tile[d] = d < first_tiled ? 1 : sizes.begin()[d + tiled];
    tiles.counts[d] = (tiles.range[d] + tiles.tile[d] - 1) / tiles.tile[d];
    tiles.total *= tiles.counts[d];
  }
  size_t slots = pool == nullptr || kind.has_thread ? 1 : size_t(lta::threads());
  slots = slots < tiles.total ? slots : tiles.total;
  if (slots <= 1) {
    run_block(tiles, 0, tiles.total);
    return;
  }
  tiles.block = tiles.total / (slots * kBlocks);
  tiles.block = tiles.block == 0 ? 1 : tiles.block;
  tiles.next = 0;
  lta::share(int(slots), run_slot, &tiles);
}

pthreadpool the_pool;

} // namespace

#define POOL pthreadpool_t pool
#define AT(task) reinterpret_cast<void*>(task)
#define OF void* argument
#define ID uint32_t id, uint32_t
#define WITH_ID Kind{true, false, id}
#define FLAGS uint32_t

extern "C" {

pthreadpool_t pthreadpool_create(size_t) { return &the_pool; }
void pthreadpool_destroy(pthreadpool_t) {}
size_t pthreadpool_get_threads_count(POOL) {
  return pool == nullptr ? 1 : size_t(lta::threads());
}

void pthreadpool_parallelize_1d(POOL, pthreadpool_task_1d_t task, OF, size_t i, FLAGS) {
  run(pool, AT(task), argument, {i}, 0, plain);
}
void pthreadpool_parallelize_1d_with_thread(POOL, pthreadpool_task_1d_with_thread_t task, OF,
                                            size_t i, FLAGS) {
  run(pool, AT(task), argument, {i}, 0, with_thread);
}
void pthreadpool_parallelize_1d_with_uarch(POOL, pthreadpool_task_1d_with_id_t task, OF, ID,
                                           size_t i, FLAGS) {
  run(pool, AT(task), argument, {i}, 0, WITH_ID);
}
void pthreadpool_parallelize_1d_tile_1d(POOL, pthreadpool_task_1d_tile_1d_t task, OF, size_t i,
                                        size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, tile}, 1, plain);
}
void pthreadpool_parallelize_2d(POOL, pthreadpool_task_2d_t task, OF, size_t i, size_t j, FLAGS) {
  run(pool, AT(task), argument, {i, j}, 0, plain);
}
void pthreadpool_parallelize_2d_with_thread(POOL, pthreadpool_task_2d_with_thread_t task, OF,
                                            size_t i, size_t j, FLAGS) {
  run(pool, AT(task), argument, {i, j}, 0, with_thread);
}
void pthreadpool_parallelize_2d_tile_1d(POOL, pthreadpool_task_2d_tile_1d_t task, OF, size_t i,
                                        size_t j, size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, tile}, 1, plain);
}
void pthreadpool_parallelize_2d_tile_1d_with_uarch(POOL, pthreadpool_task_2d_tile_1d_with_id_t task,
                                                   OF, ID, size_t i, size_t j, size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, tile}, 1, WITH_ID);
}
void pthreadpool_parallelize_2d_tile_1d_with_uarch_with_thread(
    POOL, pthreadpool_task_2d_tile_1d_with_id_with_thread_t task, OF, ID, size_t i, size_t j,
    size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, tile}, 1, Kind{true, true, id});
}
void pthreadpool_parallelize_2d_tile_2d(POOL, pthreadpool_task_2d_tile_2d_t task, OF, size_t i,
                                        size_t j, size_t tile_i, size_t tile_j, FLAGS) {
  run(pool, AT(task), argument, {i, j, tile_i, tile_j}, 2, plain);
}
void pthreadpool_parallelize_2d_tile_2d_with_uarch(POOL, pthreadpool_task_2d_tile_2d_with_id_t task,
                                                   OF, ID, size_t i, size_t j, size_t tile_i,
                                                   size_t tile_j, FLAGS) {
  run(pool, AT(task), argument, {i, j, tile_i, tile_j}, 2, WITH_ID);
}
void pthreadpool_parallelize_3d(POOL, pthreadpool_task_3d_t task, OF, size_t i, size_t j, size_t k,
                                FLAGS) {
  run(pool, AT(task), argument, {i, j, k}, 0, plain);
}
void pthreadpool_parallelize_3d_tile_1d(POOL, pthreadpool_task_3d_tile_1d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile}, 1, plain);
}
void pthreadpool_parallelize_3d_tile_1d_with_thread(
    POOL, pthreadpool_task_3d_tile_1d_with_thread_t task, OF, size_t i, size_t j, size_t k,
    size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile}, 1, with_thread);
}
void pthreadpool_parallelize_3d_tile_1d_with_uarch(POOL, pthreadpool_task_3d_tile_1d_with_id_t task,
                                                   OF, ID, size_t i, size_t j, size_t k,
                                                   size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile}, 1, WITH_ID);
}
void pthreadpool_parallelize_3d_tile_1d_with_uarch_with_thread(
    POOL, pthreadpool_task_3d_tile_1d_with_id_with_thread_t task, OF, ID, size_t i, size_t j,
    size_t k, size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile}, 1, Kind{true, true, id});
}
void pthreadpool_parallelize_3d_tile_2d(POOL, pthreadpool_task_3d_tile_2d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t tile_j, size_t tile_k, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile_j, tile_k}, 2, plain);
}
void pthreadpool_parallelize_3d_tile_2d_with_uarch(POOL, pthreadpool_task_3d_tile_2d_with_id_t task,
                                                   OF, ID, size_t i, size_t j, size_t k,
                                                   size_t tile_j, size_t tile_k, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, tile_j, tile_k}, 2, WITH_ID);
}
void pthreadpool_parallelize_4d(POOL, pthreadpool_task_4d_t task, OF, size_t i, size_t j, size_t k,
                                size_t l, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l}, 0, plain);
}
void pthreadpool_parallelize_4d_tile_1d(POOL, pthreadpool_task_4d_tile_1d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, tile}, 1, plain);
}
void pthreadpool_parallelize_4d_tile_2d(POOL, pthreadpool_task_4d_tile_2d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t tile_k, size_t tile_l,
                                        FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, tile_k, tile_l}, 2, plain);
}
void pthreadpool_parallelize_4d_tile_2d_with_uarch(POOL, pthreadpool_task_4d_tile_2d_with_id_t task,
                                                   OF, ID, size_t i, size_t j, size_t k, size_t l,
                                                   size_t tile_k, size_t tile_l, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, tile_k, tile_l}, 2, WITH_ID);
}
void pthreadpool_parallelize_5d(POOL, pthreadpool_task_5d_t task, OF, size_t i, size_t j, size_t k,
                                size_t l, size_t m, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m}, 0, plain);
}
void pthreadpool_parallelize_5d_tile_1d(POOL, pthreadpool_task_5d_tile_1d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t m, size_t tile,
                                        FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m, tile}, 1, plain);
}
void pthreadpool_parallelize_5d_tile_2d(POOL, pthreadpool_task_5d_tile_2d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t m, size_t tile_l,
                                        size_t tile_m, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m, tile_l, tile_m}, 2, plain);
}
void pthreadpool_parallelize_6d(POOL, pthreadpool_task_6d_t task, OF, size_t i, size_t j, size_t k,
                                size_t l, size_t m, size_t n, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m, n}, 0, plain);
}
void pthreadpool_parallelize_6d_tile_1d(POOL, pthreadpool_task_6d_tile_1d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t m, size_t n,
                                        size_t tile, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m, n, tile}, 1, plain);
}
void pthreadpool_parallelize_6d_tile_2d(POOL, pthreadpool_task_6d_tile_2d_t task, OF, size_t i,
                                        size_t j, size_t k, size_t l, size_t m, size_t n,
                                        size_t tile_m, size_t tile_n, FLAGS) {
  run(pool, AT(task), argument, {i, j, k, l, m, n, tile_m, tile_n}, 2, plain);
}

} // extern "C"
