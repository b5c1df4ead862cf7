/* A process that does to a library what hosts do.
 * usage: hosted LIBRARY locale ORDER MODEL...   ORDER: before (it is opened), after, never
 *        hosted LIBRARY fork COUNT MODEL
 *        hosted LIBRARY reopen COUNT MODEL
 * The library is opened with dlopen. Numbers are printed as their bits: printf obeys the locale. */
#include <dlfcn.h>
#include <libtorch_app.h>
#include <locale.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;

/* A function of the API, by the name that the header declares it by. */
#define CALL(name) ((__typeof__(&name))find(#name))

static void *find(const char *name) {
  void *found = dlsym(library, name);
  if (!found) {
    puts(name);
    exit(2);
  }
  return found;
}

static void open_library(const char *path) {
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    puts(dlerror());
    exit(2);
  }
}

static const float numbers[] = {-2.0f, -0.75f, 0.25f, 0.75f};

/* The model's result for these numbers, or NULL. */
static lta_value *run(const char *path) {
  lta_module *module = NULL;
  lta_value *result = NULL;
  const int64_t shape[] = {4};
  if (CALL(lta_module_load)(path, &module) == LTA_OK) {
    lta_value *input =
        CALL(lta_tensor_copy)(LTA_FLOAT32, 1, shape, NULL, numbers, sizeof numbers);
    const lta_value *arguments[] = {input};
    CALL(lta_module_run)(module, "forward", arguments, 1, &result);
    CALL(lta_value_free)(input);
    CALL(lta_module_free)(module);
  }
  return result;
}

static void tell(const lta_value *result) {
  float read[4];
  double number = 0;
  if (CALL(lta_value_kind)(result) == LTA_KIND_DOUBLE) {
    CALL(lta_value_double)(result, &number);
    for (size_t i = 0; i < sizeof number; ++i) {
      printf("%02x", ((const unsigned char *)&number)[i]);
    }
    puts("");
  } else if (result && CALL(lta_tensor_read)(result, read, sizeof read) == LTA_OK) {
    for (size_t i = 0; i < sizeof read; ++i) {
      printf("%02x", ((const unsigned char *)read)[i]);
    }
    puts("");
  } else {
    puts(CALL(lta_last_error)());
  }
}

static int in_locale(const char *path, const char *order, char **models) {
  if (strcmp(order, "before") == 0) {
    setlocale(LC_ALL, "");
  }
  open_library(path);
  if (strcmp(order, "after") == 0) {
    setlocale(LC_ALL, "");
  }
  printf("1%s5\n", localeconv()->decimal_point);
  for (; *models; ++models) {
    lta_value *result = run(*models);
    tell(result);
    CALL(lta_value_free)(result);
  }
  return 0;
}

static const char *loaded;
static volatile int ended;

static void *load_for_ever(void *unused) {
  while (!ended) {
    CALL(lta_value_free)(run(loaded));
  }
  return unused;
}

/* Forks while another thread loads and runs: each child loads and runs, too. */
static int fork_often(int count, const char *model) {
  int good = 0, hung = 0;
  pthread_t thread;
  loaded = model;
  pthread_create(&thread, NULL, load_for_ever, NULL);
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(run(model) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
    usleep((useconds_t)(i % 7) * 100);
  }
  ended = 1;
  pthread_join(thread, NULL);
  printf("%d of %d children ran, %d hung\n", good, count, hung);
  return 0;
}

/* mallinfo2 is newer than the glibc that tests are compiled for. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Opens the library, runs a model and closes it; prints what the heap gained from the tenth time on. */
static int reopen(const char *path, int count, const char *model) {
  long before = 0;
  for (int i = 0; i < count; ++i) {
    if (i == 10) {
      before = (long)mallinfo().uordblks;
    }
    open_library(path);
    lta_value *result = run(model);
    if (!result) {
      puts(CALL(lta_last_error)());
      return 1;
    }
    CALL(lta_value_free)(result);
    dlclose(library);
  }
  printf("%ld\n", (long)mallinfo().uordblks - before);
  fflush(stdout);
  /* nothing of what was unloaded is called */
  const pid_t child = fork();
  if (child == 0) {
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  puts(status == 0 ? "forked" : "the child failed");
  return 0;
}

int main(int argc, char **argv) {
  const char *path = argv[1], *mode = argc > 4 ? argv[2] : "";
  if (strcmp(mode, "locale") == 0) {
    return in_locale(path, argv[3], argv + 4);
  }
  if (strcmp(mode, "reopen") == 0) {
    return reopen(path, atoi(argv[3]), argv[4]);
  }
  if (strcmp(mode, "fork") == 0) {
    open_library(path);
    return fork_often(atoi(argv[3]), argv[4]);
  }
  return 2;
}
