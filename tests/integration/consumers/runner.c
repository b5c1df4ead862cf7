/* Loads models, runs their forward and reads all that it gives, each in a process of its own.
 * usage: runner < PATHS     a path a line; prints a line for each
 *        runner PATH        in this process, for a debugger
 * PICTURE in the environment: forward takes one. SECONDS, MEMORY: the most for a model.
 *
 * A line is "ran", "load STATUS text", "run STATUS text", "read STATUS text" or "signal N".
 * A buffer is as large as the library says, to the byte: an allocator that looks sees a byte more. */
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

static lta_status read_tensor(const lta_value *value) {
  lta_tensor_info info;
  lta_status status = lta_tensor_describe(value, &info);
  if (status != LTA_OK || lta_dtype_size(info.dtype) == 0 || info.data == NULL) {
    return status;
  }
  /* More is not there to read: a view of a few elements may be as large as it likes. */
  char *buffer = info.nbytes <= (size_t)1 << 30 ? malloc(info.nbytes) : NULL;
  status = buffer ? lta_tensor_read(value, buffer, info.nbytes) : LTA_OK;
  unsigned sum = 0;
  for (size_t i = 0; buffer && i < info.nbytes; ++i) {
    sum += (unsigned char)buffer[i];
  }
  free(buffer);
  static volatile unsigned sink;
  sink = sum;
  (void)sink;
  return status;
}

static lta_status read_value(const lta_value *value, int depth) {
  size_t size = 0;
  const lta_kind kind = lta_value_kind(value);
  if (kind == LTA_KIND_TENSOR) {
    return read_tensor(value);
  }
  if (kind == LTA_KIND_STRING) {
    const char *text = NULL;
    return lta_value_string(value, &text, &size);
  }
  if ((kind != LTA_KIND_LIST && kind != LTA_KIND_TUPLE && kind != LTA_KIND_DICT) || depth > 20) {
    return LTA_OK;
  }
  lta_status status = lta_value_size(value, &size);
  for (size_t i = 0; status == LTA_OK && i < size && i < 1000; ++i) {
    lta_value *key = NULL;
    lta_value *item = NULL;
    status = kind == LTA_KIND_DICT ? lta_value_entry(value, i, &key, &item)
                                   : lta_value_item(value, i, &item);
    if (status == LTA_OK) {
      status = read_value(item, depth + 1);
    }
    lta_value_free(key);
    lta_value_free(item);
  }
  return status;
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
