/* Counts what a process has of malloc and of mmap, for LD_PRELOAD: another count than native/memory/heap.cpp's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

static atomic_long held, most;

static void *add(void *data) {
  if (data) {
    long now = atomic_fetch_add(&held, (long)malloc_usable_size(data)) + (long)malloc_usable_size(data);
    long before = atomic_load(&most);
    while (now > before && !atomic_compare_exchange_weak(&most, &before, now)) {
    }
  }
  return data;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t size) { return add(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return add(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return add(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **data, size_t alignment, size_t size) {
  return (*data = memalign(alignment, size)) ? 0 : 12;
}
void free(void *data) {
  if (data) {
    atomic_fetch_sub(&held, (long)malloc_usable_size(data));
    __libc_free(data);
  }
}
void *realloc(void *data, size_t size) {
  if (data) {
    atomic_fetch_sub(&held, (long)malloc_usable_size(data));
  }
  return add(__libc_realloc(data, size));
}

/* Of pages only those that weights lie in: they leave by a mapping over them (capi/model_memory.cpp). */
void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset) {
  void *(*next)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
  void *data = next(at, size, access, flags, file, offset);
  if (data != MAP_FAILED && file < 0) {
    long bytes = flags & MAP_FIXED && access == PROT_NONE ? -(long)size : (long)size;
    long now = atomic_fetch_add(&held, bytes) + bytes;
    if (now > atomic_load(&most)) {
      atomic_store(&most, now);
    }
  }
  return data;
}

void *mmap64(void *at, size_t size, int access, int flags, int file, off_t offset) {
  return mmap(at, size, access, flags, file, offset);
}

long count_held(void) { return held; }
long count_most(void) { return most; }
void count_again(void) { atomic_store(&most, held); }
