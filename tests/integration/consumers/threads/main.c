/* Libraries with threads: started by work, gone when unloaded, right after fork, at peace with each
 * other. Prints "ok".
 * usage: threads LIBRARY OTHER WITHOUT MODEL
 *        LIBRARY and OTHER have two threads, WITHOUT has none; MODEL takes pictures of 3x224x224 */
#include <dirent.h>
#include <dlfcn.h>
#include <libtorch_app.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                       \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                  \
      _exit(1);                                                                \
    }                                                                          \
  } while (0)

enum { SIDE = 224, PIXELS = 3 * SIDE * SIDE, MOST = 4096, CALLERS = 8 };

typedef struct {
  void *handle;
  lta_status (*load)(const char *, lta_module **);
  void (*free_module)(lta_module *);
  lta_status (*run)(lta_module *, const char *, const lta_value *const *, size_t, lta_value **);
  lta_value *(*tensor)(lta_dtype, size_t, const int64_t *, const int64_t *, const void *, size_t);
  lta_status (*describe)(const lta_value *, lta_tensor_info *);
  lta_status (*read)(const lta_value *, void *, size_t);
  void (*free_value)(lta_value *);
  int (*threads)(void);
  lta_status (*set_threads)(int);
  const char *(*last_error)(void);
} Library;

static const char *model_path;
static float pixels[PIXELS];

#define FIND(member, name) *(void **)&library.member = dlsym(library.handle, name)

static Library open_library(const char *path) {
  Library library = {0};
  library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library.handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(1);
  }
  FIND(load, "lta_module_load");
  FIND(free_module, "lta_module_free");
  FIND(run, "lta_module_run");
  FIND(tensor, "lta_tensor_copy");
  FIND(describe, "lta_tensor_describe");
  FIND(read, "lta_tensor_read");
  FIND(free_value, "lta_value_free");
  FIND(threads, "lta_threads");
  FIND(set_threads, "lta_set_threads");
  FIND(last_error, "lta_last_error");
  return library;
}

/* The threads of this process; one that was joined may be there for a moment. */
static int count_threads(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  CHECK(folder != NULL);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    count += entry->d_name[0] != '.';
  }
  closedir(folder);
  return count;
}

static void expect_threads(int expected) {
  for (int tries = 0; tries < 1000 && count_threads() != expected; ++tries) {
    usleep(1000);
  }
  if (count_threads() != expected) {
    fprintf(stderr, "%d threads instead of %d\n", count_threads(), expected);
    _exit(1);
  }
}

static size_t run(const Library *library, lta_module *module, float *result) {
  const int64_t shape[] = {1, 3, SIDE, SIDE};
  lta_value *picture = library->tensor(LTA_FLOAT32, 4, shape, NULL, pixels, sizeof pixels);
  const lta_value *arguments[] = {picture};
  lta_value *scores = NULL;
  CHECK(picture != NULL);
  CHECK(library->run(module, "forward", arguments, 1, &scores) == LTA_OK);
  lta_tensor_info info;
  CHECK(library->describe(scores, &info) == LTA_OK && info.numel <= MOST);
  CHECK(library->read(scores, result, info.nbytes) == LTA_OK);
  library->free_value(scores);
  library->free_value(picture);
  return info.numel;
}

static lta_module *load(const Library *library) {
  lta_module *module = NULL;
  CHECK(library->load(model_path, &module) == LTA_OK);
  return module;
}

static void check_equal(const float *one, const float *other, size_t count) {
  CHECK(memcmp(one, other, count * sizeof *one) == 0);
}

static void check_near(const float *one, const float *other, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const float difference = one[i] - other[i], size = one[i] < 0 ? -one[i] : one[i];
    CHECK(difference < 1e-4f * (1 + size) && -difference < 1e-4f * (1 + size));
  }
}

/* ---- The number ---- */

static void check_numbers(const Library *library, const Library *without) {
  const int bad[] = {0, -1, 1025, -2147483647 - 1, 2147483647};
  CHECK(library->threads() == 2 && without->threads() == 1);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
    CHECK(library->set_threads(bad[i]) == LTA_INVALID_ARGUMENT);
    CHECK(strcmp(library->last_error(), "the number of threads is not one from 1 to 1024") == 0);
    CHECK(without->set_threads(bad[i]) == LTA_INVALID_ARGUMENT);
  }
  CHECK(without->set_threads(1) == LTA_OK);
  CHECK(without->set_threads(2) == LTA_INVALID_ARGUMENT);
  CHECK(strcmp(without->last_error(),
               "this library has no threads: its app.yaml says `threads: 1`") == 0);
  CHECK(without->threads() == 1);
  CHECK(library->set_threads(1024) == LTA_OK && library->threads() == 1024);
  CHECK(library->set_threads(2) == LTA_OK && library->threads() == 2);
}

/* ---- When threads are there ---- */

static void check_started_by_work(const Library *library, const float *expected, size_t count) {
  const int above = (int)sysconf(_SC_NPROCESSORS_ONLN) + 2; /* more than there are cores */
  float found[MOST];
  expect_threads(1);
  lta_module *module = load(library);
  expect_threads(1);
  CHECK(library->set_threads(1) == LTA_OK);
  CHECK(run(library, module, found) == count);
  check_near(found, expected, count);
  expect_threads(1);
  CHECK(library->set_threads(2) == LTA_OK);
  run(library, module, found);
  check_near(found, expected, count);
  expect_threads(2);
  CHECK(library->set_threads(above) == LTA_OK);
  run(library, module, found);
  check_near(found, expected, count);
  expect_threads(above);
  CHECK(library->set_threads(2) == LTA_OK); /* they end, and start again */
  expect_threads(1);
  run(library, module, found);
  expect_threads(2);
  library->free_module(module);
}

static double cpu_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void check_asleep(void) {
  const double before = cpu_seconds();
  usleep(500 * 1000);
  CHECK(cpu_seconds() - before < 0.05);
}

static void check_fork(const Library *library, lta_module *module, const float *expected,
                       size_t count) {
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      float found[MOST];
      alarm(60);
      expect_threads(1);
      run(library, module, found);
      check_equal(found, expected, count);
      expect_threads(2);
      exit(0); /* what runs then joins the child's own threads */
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
}

/* ---- Several callers ---- */

typedef struct {
  const Library *library;
  const float *expected;
  size_t count;
} Caller;

static void *call(void *of) {
  const Caller *caller = of;
  float found[MOST];
  lta_module *module = load(caller->library);
  for (int i = 0; i < 10; ++i) {
    run(caller->library, module, found);
    check_equal(found, caller->expected, caller->count);
  }
  caller->library->free_module(module);
  return NULL;
}

static void check_callers(const Library *first, const Library *second, const float *expected,
                          size_t count) {
  pthread_t threads[CALLERS];
  Caller callers[CALLERS];
  for (int i = 0; i < CALLERS; ++i) {
    callers[i] = (Caller){i % 2 ? first : second, expected, count};
    CHECK(pthread_create(&threads[i], NULL, call, &callers[i]) == 0);
  }
  for (int i = 0; i < CALLERS; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
}

static void *change(void *of) {
  const Library *library = of;
  for (int i = 0; i < 200; ++i) {
    CHECK(library->set_threads(1 + i % 5) == LTA_OK);
    usleep(500);
  }
  return NULL;
}

/* Somebody sets other numbers while models run. */
static void check_changes(const Library *library, lta_module *module, const float *expected,
                          size_t count) {
  pthread_t changer;
  float found[MOST];
  CHECK(pthread_create(&changer, NULL, change, (void *)library) == 0);
  for (int i = 0; i < 20; ++i) {
    run(library, module, found);
    check_near(found, expected, count);
  }
  CHECK(pthread_join(changer, NULL) == 0);
  CHECK(library->set_threads(2) == LTA_OK);
}

static void check_unloading(const char *path, const float *expected, size_t count) {
  float found[MOST];
  for (int i = 0; i < 50; ++i) {
    Library library = open_library(path);
    lta_module *module = load(&library);
    run(&library, module, found);
    check_equal(found, expected, count);
    expect_threads(2);
    library.free_module(module);
    CHECK(dlclose(library.handle) == 0);
    expect_threads(1);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: threads LIBRARY OTHER WITHOUT MODEL\n");
    return 2;
  }
  model_path = argv[4];
  for (size_t i = 0; i < PIXELS; ++i) {
    pixels[i] = (float)(i % 251) / 251.0f;
  }
  float alone[MOST], expected[MOST], found[MOST];
  Library without = open_library(argv[3]);
  lta_module *module = load(&without);
  const size_t count = run(&without, module, alone);
  without.free_module(module);
  expect_threads(1);

  Library library = open_library(argv[1]);
  module = load(&library);
  run(&library, module, expected);
  library.free_module(module);
  check_near(expected, alone, count);
  CHECK(dlclose(library.handle) == 0);
  expect_threads(1);

  check_unloading(argv[1], expected, count);
  library = open_library(argv[1]);
  check_numbers(&library, &without);
  check_started_by_work(&library, alone, count);
  check_asleep();
  module = load(&library);
  run(&library, module, found);
  check_fork(&library, module, expected, count);
  check_changes(&library, module, alone, count);

  Library other = open_library(argv[2]);
  check_callers(&library, &library, expected, count);
  check_callers(&library, &other, expected, count);
  CHECK(dlclose(other.handle) == 0);
  library.free_module(module);
  puts("ok");
  return 0;
}
