/* Loads a model and prints what it gives, one line a result:
 *   forward 0: float32 [1, 5] 0.25 0.1 ...
 * usage: consumer MODEL [SIZE...]
 * Without sizes the model's bundled inputs of forward are run, else a float32 tensor of zeros. */
#include <inttypes.h>
#include <libtorch_app.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN = 8, MAX_DIMS = 16 };

static void check(lta_status status) {
  if (status != LTA_OK) {
    fprintf(stderr, "%s: %s\n", lta_status_name(status), lta_last_error());
    exit(1);
  }
}

static void print_tensor(const lta_value *value) {
  lta_tensor_info info;
  check(lta_tensor_describe(value, &info));
  printf(" %s [", lta_dtype_name(info.dtype));
  for (size_t i = 0; i < info.ndim; ++i) {
    printf("%s%" PRId64, i ? ", " : "", info.shape[i]);
  }
  printf("]");
  void *bytes = malloc(info.nbytes + 1);
  check(lta_tensor_read(value, bytes, info.nbytes));
  for (size_t i = 0; i < info.numel && i < SHOWN; ++i) {
    if (info.dtype == LTA_FLOAT32) {
      printf(" %.6g", (double)((float *)bytes)[i]);
    } else if (info.dtype == LTA_INT64) {
      printf(" %" PRId64, ((int64_t *)bytes)[i]);
    }
  }
  free(bytes);
}

static void print_value(const lta_value *value) {
  const lta_kind kind = lta_value_kind(value);
  if (kind == LTA_KIND_TENSOR) {
    print_tensor(value);
  } else if (kind == LTA_KIND_TUPLE || kind == LTA_KIND_LIST) {
    size_t size = 0;
    check(lta_value_size(value, &size));
    for (size_t i = 0; i < size; ++i) {
      lta_value *item = NULL;
      check(lta_value_item(value, i, &item));
      print_value(item);
      lta_value_free(item);
    }
  }
}

static void run(lta_module *module, size_t index, const lta_value *const *arguments,
                size_t count) {
  lta_value *result = NULL;
  check(lta_module_run(module, "forward", arguments, count, &result));
  printf("forward %zu:", index);
  print_value(result);
  printf("\n");
  lta_value_free(result);
}

static void run_bundled(lta_module *module) {
  lta_value *inputs = NULL;
  size_t size = 0;
  check(lta_module_run(module, "get_all_bundled_inputs", NULL, 0, &inputs));
  check(lta_value_size(inputs, &size));
  for (size_t i = 0; i < size; ++i) {
    lta_value *input = NULL;
    lta_value *arguments[MAX_DIMS];
    size_t count = 0;
    check(lta_value_item(inputs, i, &input));
    check(lta_value_size(input, &count));
    for (size_t k = 0; k < count; ++k) {
      check(lta_value_item(input, k, &arguments[k]));
    }
    run(module, i, (const lta_value *const *)arguments, count);
    for (size_t k = 0; k < count; ++k) {
      lta_value_free(arguments[k]);
    }
    lta_value_free(input);
  }
  lta_value_free(inputs);
}

static void run_zeros(lta_module *module, size_t ndim, char **sizes) {
  int64_t shape[MAX_DIMS];
  size_t nbytes = sizeof(float);
  for (size_t i = 0; i < ndim; ++i) {
    shape[i] = strtoll(sizes[i], NULL, 10);
    nbytes *= (size_t)shape[i];
  }
  lta_value *zeros = lta_tensor_copy(LTA_FLOAT32, ndim, shape, NULL, NULL, nbytes);
  if (!zeros) {
    check(lta_last_status());
  }
  const lta_value *arguments[] = {zeros};
  run(module, 0, arguments, 1);
  lta_value_free(zeros);
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 2 + MAX_DIMS) {
    fprintf(stderr, "usage: consumer MODEL [SIZE...]\n");
    return 2;
  }
  lta_module *module = NULL;
  check(lta_module_load(argv[1], &module));
  if (argc > 2) {
    run_zeros(module, (size_t)(argc - 2), argv + 2);
  } else {
    run_bundled(module);
  }
  lta_module_free(module);
  return 0;
}
