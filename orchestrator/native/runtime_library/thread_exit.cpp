// Lets a shared library with threads of its own be unloaded.
//
// Meaning: destructors of static objects are registered with the C library, for the library's handle.
// What runs them when the library is unloaded is crtbeginS.o of gcc's, which zig's linker has not.
//
// And glibc keeps a library loaded as long as some living thread has such an object of it, and
// PyTorch makes one in each thread that calls an operator (c10::impl::TorchDispatchModeTLS): after
// dlclose() the library would stay, and its threads with it. Here the destructors hang on a key of the
// library's own. They run when their thread ends, and those of the thread that unloads the library then;
// those of other threads that outlive it do not run.
//
// In place of libc++abi's __cxa_thread_atexit, which asks glibc.
#include <pthread.h>
#include <stdlib.h>

namespace {

struct Object {
  void (*destroy)(void*);
  void* object;
  Object* before;
};

pthread_key_t key;
bool has_key;

void destroy_all(void* last) {
  auto* at = static_cast<Object*>(last);
  while (at != nullptr) {
    // a destructor may make another
    pthread_setspecific(key, at->before);
    at->destroy(at->object);
    free(at);
    at = static_cast<Object*>(pthread_getspecific(key));
  }
}

__attribute__((constructor(101))) void make_key() {
  has_key = pthread_key_create(&key, destroy_all) == 0;
}

__attribute__((destructor(101))) void forget_key() {
  if (has_key) {
    has_key = false;
    pthread_key_delete(key);
  }
}

} // namespace

extern "C" {

void __cxa_finalize(void*);
extern __attribute__((visibility("hidden"))) void* __dso_handle;

// Before the key goes; a thread's objects before the static ones. Where somebody else has done it, nothing
// is left to do.
__attribute__((destructor, visibility("hidden"))) void finalize_library(void) {
  if (has_key) {
    destroy_all(pthread_getspecific(key));
  }
  __cxa_finalize(&__dso_handle);
}

int __cxa_thread_atexit(void (*destroy)(void*), void* object, void*) {
  auto* made = has_key ? static_cast<Object*>(malloc(sizeof(Object))) : nullptr;
  if (made == nullptr) {
    return -1; // never destroyed
  }
  made->destroy = destroy;
  made->object = object;
  made->before = static_cast<Object*>(pthread_getspecific(key));
  pthread_setspecific(key, made);
  return 0;
}

} // extern "C"
