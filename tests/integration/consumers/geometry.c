/* Runs models on inputs of many shapes. The memory around an input may not be touched.
 * usage: geometry < CASES
 *
 * A case is a line: the model's path, and the shapes of its calls, as `1,4,8,8`, or `-` for a number's.
 * For each call a line is printed, and flushed before the next: "ran 1,4,8,8 HEX", the result's floats in
 * the order of their numbers; or what failed: "load STATUS text", "run STATUS text". */
#include <libtorch_app.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_DIMS = 8 };

static void tell(const char *when, lta_status status) {
  printf("%s %s ", when, lta_status_name(status));
  for (const char *at = lta_last_error(); *at; ++at) {
    putchar(*at >= ' ' && *at <= '~' ? *at : '?');
  }
  puts("");
  fflush(stdout);
}

/* Memory that ends, or begins, where a page begins that nothing may touch. */
struct guarded {
  char *pages;
  size_t size;
  float *data;
};

static struct guarded guard(size_t bytes, int at_end) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (bytes + page) / page * page;
  struct guarded made = {NULL, inner + 2 * page, NULL};
  made.pages = mmap(NULL, made.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made.pages == MAP_FAILED || mprotect(made.pages + page, inner, PROT_READ | PROT_WRITE)) {
    exit(2);
  }
  made.data = (float *)(void *)(made.pages + page + (at_end ? inner - bytes : 0));
  return made;
}

static void tell_result(const lta_value *result) {
  lta_tensor_info info;
  lta_status status = lta_tensor_describe(result, &info);
  float *read = malloc(info.nbytes + 1);
  if (status == LTA_OK) {
    status = lta_tensor_read(result, read, info.nbytes);
  }
  if (status != LTA_OK || info.dtype != LTA_FLOAT32) {
    tell("read", status);
    free(read);
    return;
  }
  fputs("ran ", stdout);
  for (size_t i = 0; i < info.ndim; ++i) {
    printf(i ? ",%lld" : "%lld", (long long)info.shape[i]);
  }
  putchar(' ');
  const unsigned char *bytes = (const unsigned char *)read;
  for (size_t i = 0; i < info.nbytes; ++i) {
    putchar("0123456789abcdef"[bytes[i] >> 4]);
    putchar("0123456789abcdef"[bytes[i] & 15]);
  }
  puts("");
  fflush(stdout);
  free(read);
}

static void call(lta_module *module, const char *shape, int number) {
  int64_t sizes[MOST_DIMS];
  size_t dims = 0, elements = 1;
  char *end = NULL;
  for (const char *at = shape; *at && *at != '-'; at = *end ? end + 1 : end) {
    sizes[dims] = strtoll(at, &end, 10);
    elements *= (size_t)sizes[dims++];
  }
  struct guarded memory = guard(elements * sizeof(float), number % 2 == 0);
  uint32_t state = (uint32_t)elements + 1;
  for (size_t i = 0; i < elements; ++i) {
    state = state * 1664525u + 1013904223u;
    memory.data[i] = (float)(state >> 8) / (float)(1 << 23) - 1;
  }
  lta_value *input = lta_tensor_borrow(LTA_FLOAT32, dims, sizes, NULL, memory.data,
                                       elements * sizeof(float), NULL, NULL);
  const lta_value *arguments[] = {input};
  lta_value *result = NULL;
  const lta_status status =
      input ? lta_module_run(module, "forward", arguments, 1, &result) : lta_last_status();
  if (status == LTA_OK) {
    tell_result(result);
  } else {
    tell("run", status);
  }
  lta_value_free(input);
  lta_value_free(result);
  munmap(memory.pages, memory.size);
}

int main(void) {
  char line[8192];
  while (fgets(line, sizeof line, stdin)) {
    const char *path = strtok(line, " \n");
    lta_module *module = NULL;
    const lta_status status = lta_module_load(path, &module);
    int number = 0;
    for (const char *shape; (shape = strtok(NULL, " \n")) != NULL; ++number) {
      if (status == LTA_OK) {
        call(module, shape, number);
      } else {
        tell("load", status);
      }
    }
    lta_module_free(module);
  }
  return 0;
}
