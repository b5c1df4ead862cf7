/* Loads models, runs their forward and reads all that it gives, each in a process of its own.
 * usage: runner < PATHS     a path a line; prints a line for each
 *        runner PATH        in this process, for a debugger
 * PICTURE in the environment: forward takes one. SECONDS, MEMORY: the most for a model.
 *
 * A line is "ran", "load STATUS text", "run STATUS text", "read STATUS text" or "signal N". */
#include "reading.h"
#include <libtorch_app.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* A picture, for a model that takes one. */
enum { SIDE = 96, PIXELS = 3 * SIDE * SIDE };

/* In one line, whatever names from the model are in the text. */
static void tell(const char *when, lta_status status) {
  printf("%s %s ", when, lta_status_name(status));
  for (const char *at = lta_last_error(); *at; ++at) {
    putchar(*at >= ' ' && *at <= '~' ? *at : '?');
  }
}

static void use_model(const char *path) {
  lta_module *module = NULL;
  lta_value *result = NULL;
  lta_status status = lta_module_load(path, &module);
  if (status != LTA_OK) {
    tell("load", status);
    return;
  }
  const int64_t shape[] = {1, 3, SIDE, SIDE};
  lta_value *picture = lta_tensor_copy(LTA_FLOAT32, 4, shape, NULL, NULL, PIXELS * sizeof(float));
  const lta_value *arguments[] = {picture};
  status = lta_module_run(module, "forward", arguments, getenv("PICTURE") != NULL, &result);
  if (status != LTA_OK) {
    tell("run", status);
  } else if ((status = read_value(result, 0)) != LTA_OK) {
    tell("read", status);
  } else {
    printf("ran");
  }
  lta_value_free(picture);
  lta_value_free(result);
  lta_module_free(module);
}

static unsigned long long from_environment(const char *name, unsigned long long otherwise) {
  const char *value = getenv(name);
  return value ? strtoull(value, NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
  if (argc == 2) {
    use_model(argv[1]);
    puts("");
    return 0;
  }
  const rlim_t memory = (rlim_t)from_environment("MEMORY", 0);
  const unsigned seconds = (unsigned)from_environment("SECONDS", 10);
  char path[4096];
  while (fgets(path, sizeof path, stdin)) {
    path[strcspn(path, "\n")] = '\0';
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
      const struct rlimit none = {0, 0};
      const struct rlimit most = {memory, memory};
      setrlimit(RLIMIT_CORE, &none);
      if (memory) {
        setrlimit(RLIMIT_AS, &most);
      }
      alarm(seconds);
      use_model(path);
      fflush(NULL);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
      return 2;
    }
    if (WIFSIGNALED(status)) {
      printf("signal %d", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
      printf(" exit %d", WEXITSTATUS(status));
    }
    puts("");
  }
  return 0;
}
