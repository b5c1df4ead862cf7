/* Runs models on inputs of many shapes. The memory around an input may not be touched.
 * usage: geometry < CASES
 *
 * A case is a line: the model's path, and the shapes of its calls, as `1,4,8,8`, or `-` for a number's. Before a
 * shape stands how the input lies in memory: `c` a part of a picture in channels-last order, `s` a part of a larger
 * tensor, `e` one image for all of the batch, nothing for the usual order. Behind that may stand `n17:`, `+17:` or
 * `-17:`, where element 17 is NaN or an infinity.
 * For each call a line is printed, and flushed before the next: "ran 1,4,8,8 HEX", the result's floats in
 * the order of their numbers; or what failed: "load STATUS text", "run STATUS text". */
#include <libtorch_app.h>
#include <math.h>
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

/* Fills in strides, and returns how many elements they span. */
static size_t lay_out(char layout, size_t dims, const int64_t *sizes, int64_t *strides) {
  const int64_t more = layout == 'c' || layout == 's';
  int64_t next = layout == 's' ? 2 : 1, span = 1;
  if (layout == 'c' && dims > 2) {
    strides[1] = 1;
    next = sizes[1] + more;
  }
  for (size_t i = dims; i-- > 0;) {
    if (layout == 'c' && dims > 2 && i == 1) {
      continue;
    }
    strides[i] = next;
    next *= sizes[i] + more;
  }
  if (layout == 'e' && dims > 0) {
    strides[0] = 0;
  }
  for (size_t i = 0; i < dims; ++i) {
    if (sizes[i] == 0) {
      return 0;
    }
    span += (sizes[i] - 1) * strides[i];
  }
  return (size_t)span;
}

static void call(lta_module *module, const char *shape, int number) {
  int64_t sizes[MOST_DIMS], strides[MOST_DIMS];
  size_t dims = 0, elements = 1;
  const char layout = strchr("cse", *shape) ? *shape++ : 0;
  char *end = NULL;
  const char special = strchr("n+-", *shape) && shape[1] ? *shape : 0;
  const size_t place = special ? (size_t)strtoull(shape + 1, &end, 10) : 0;
  shape = special ? end + 1 : shape;
  for (const char *at = shape; *at && *at != '-'; at = *end ? end + 1 : end) {
    sizes[dims] = strtoll(at, &end, 10);
    elements *= (size_t)sizes[dims++];
  }
  const size_t spanned = lay_out(layout, dims, sizes, strides);
  struct guarded memory = guard(spanned * sizeof(float), number % 2 == 0);
  uint32_t state = (uint32_t)elements + 1;
  for (size_t i = 0; i < elements; ++i) {
    size_t at = 0, left = i;
    for (size_t dim = dims; dim-- > 0; left /= (size_t)sizes[dim]) {
      at += left % (size_t)sizes[dim] * (size_t)strides[dim];
    }
    state = state * 1664525u + 1013904223u;
    memory.data[at] = (float)(state >> 8) / (float)(1 << 23) - 1;
    if (special && i == place) {
      memory.data[at] = special == 'n' ? NAN : special == '+' ? INFINITY : -INFINITY;
    }
  }
  lta_value *input = lta_tensor_borrow(LTA_FLOAT32, dims, sizes, layout ? strides : NULL, memory.data,
                                       spanned * sizeof(float), NULL, NULL);
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
