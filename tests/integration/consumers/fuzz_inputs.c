/* libFuzzer's target for hostile inputs: the bytes say which method of which model runs, with what.
 * MODELS in the environment: paths, with colons between. Arguments are of the kinds that the method's
 * schema has, now and then of another one; tensors lie in buffers that end where they end. */
#include "reading.h"
#include <libtorch_app.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS_MAX = 32, ARGUMENTS_MAX = 12, CALLS = 3, NUMBERS_MAX = 1 << 16 };

static struct {
  char *data;
  size_t size;
} models[MODELS_MAX];
static size_t model_count;

/* What is left of the fuzzer's bytes; zeros when they are over. */
static const uint8_t *bytes;
static size_t left;

static unsigned take(void) {
  if (left == 0) {
    return 0;
  }
  --left;
  return *bytes++;
}

static int64_t take_number(void) {
  static const int64_t odd[] = {0,  1,  2,   3,   -1,        -2,        5,         7,
                                8,  9,  15,  16,  17,        31,        32,        33,
                                63, 64, 100, 255, INT32_MAX, INT64_MAX, INT64_MIN, 1ll << 32};
  const unsigned way = take();
  return way < 200 ? odd[way % (sizeof odd / sizeof *odd)] : (int64_t)(take() << 8 | take());
}

static lta_value *take_tensor(int integers) {
  static const uint8_t sizes[] = {1, 2, 3, 0, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 96};
  const unsigned way = take();
  const unsigned dims = take() % 6;
  int64_t shape[6] = {0};
  int64_t strides[6] = {0};
  lta_dtype dtype = integers ? LTA_INT64 : LTA_FLOAT32;
  if (way % 8 == 7) {
    dtype = (lta_dtype)(take() % 18);
  } else if (way % 8 == 6) {
    dtype = integers ? LTA_FLOAT32 : LTA_INT64;
  }
  size_t numbers = 1;
  for (unsigned i = 0; i < dims; ++i) {
    const unsigned chosen = take();
    shape[i] = chosen < 240 ? sizes[chosen % sizeof sizes] : (int64_t)(take() * 4);
    if (numbers * (size_t)shape[i] > NUMBERS_MAX) {
      shape[i] = 1;
    }
    numbers *= (size_t)shape[i];
  }
  /* In the usual order, turned round, of one number, or with gaps. */
  const unsigned layout = take() % 8;
  int64_t step = layout == 7 ? 2 : 1;
  for (unsigned i = 0; i < dims; ++i) {
    const unsigned at = layout == 5 ? i : dims - 1 - i;
    strides[at] = layout == 6 ? 0 : step;
    step *= shape[at] > 0 ? shape[at] : 1;
  }
  size_t span = numbers > 0;
  for (unsigned i = 0; i < dims && numbers > 0; ++i) {
    span += (size_t)((shape[i] - 1) * strides[i]);
  }
  const size_t size = lta_dtype_size(dtype) * span;
  char *data = malloc(size ? size : 1);
  const unsigned filled = take();
  for (size_t i = 0; i < size; ++i) {
    const size_t in = lta_dtype_size(dtype) ? i % lta_dtype_size(dtype) : 0;
    switch (filled % 6) {
    case 0: /* small whole numbers, of integers */
      data[i] = in == 0 ? (char)(i / 8 % (filled / 6 + 1)) : 0;
      break;
    case 1:
      data[i] = (char)0xff; /* NaN, and -1 */
      break;
    case 2: /* as many ones in floats, of little-endian bytes */
      data[i] = in == 3 ? 0x3f : in == 2 ? (char)0x80 : 0;
      break;
    case 3:
      data[i] = in == 7 || (in == 3 && dtype == LTA_FLOAT32) ? 0x7f : (char)0xff;
      break;
    default:
      data[i] = (char)(left ? take() : (unsigned)i * 37u + filled);
    }
  }
  if (dtype == LTA_BOOL) {
    for (size_t i = 0; i < size; ++i) {
      data[i] &= 1; /* others are no bools in C++ */
    }
  }
  return lta_tensor_borrow(dtype, dims, dims ? shape : NULL, layout < 5 && dims ? NULL : strides,
                           data, size, free, data);
}

static lta_value *take_value(const char *kind, int depth);

/* A container of a kind as a schema writes it: `Dict(str, Tensor)`, `(int, Tensor)`, `Tensor[]`. The
 * kind ends at `end`. */
static lta_value *take_container(const char *kind, const char *end, int depth) {
  const unsigned count = take() % 5;
  lta_value *items[5] = {NULL};
  lta_value *keys[5] = {NULL};
  const int dict = !strncmp(kind, "Dict(", 5);
  char item[64] = "";
  if (dict && strchr(kind, ',')) {
    kind = strchr(kind, ',') + 2;
  } else if (*kind == '(') {
    ++kind;
  } else if (end - kind - 2 < (ptrdiff_t)sizeof item) {
    memcpy(item, kind, (size_t)(end - kind - 2)); /* without its brackets */
    kind = item;
  }
  for (unsigned i = 0; i < count; ++i) {
    keys[i] = dict ? take_value(take() % 8 ? "str " : "int ", depth + 1) : NULL;
    items[i] = take_value(kind, depth + 1);
  }
  lta_value *made = NULL;
  if (dict) {
    made = lta_dict(LTA_KIND_STRING, LTA_KIND_TENSOR, (const lta_value *const *)keys,
                    (const lta_value *const *)items, count);
  } else if (kind != item) {
    made = lta_tuple((const lta_value *const *)items, count);
  } else {
    made = lta_list(LTA_KIND_TENSOR, (const lta_value *const *)items, count);
  }
  for (unsigned i = 0; i < count; ++i) {
    lta_value_free(keys[i]);
    lta_value_free(items[i]);
  }
  return made;
}

static lta_value *take_value(const char *kind, int depth) {
  const char *end = kind + strcspn(kind, " ,)");
  const unsigned way = take();
  if (depth > 4 || way >= 250) {
    return lta_none();
  }
  if (way >= 244) {
    static const char *const others[] = {"Tensor ", "int ", "str ", "float ", "Tensor[] ", "bool "};
    return take_value(others[way - 244], depth + 1);
  }
  if (!strncmp(kind, "Dict(", 5) || *kind == '(' || (end - kind > 2 && end[-1] == ']')) {
    return take_container(kind, end, depth);
  }
  if (!strncmp(kind, "int", 3)) {
    return lta_int(take_number());
  }
  if (!strncmp(kind, "float", 5)) {
    double value = 0;
    uint8_t raw[sizeof value];
    for (size_t i = 0; i < sizeof raw; ++i) {
      raw[i] = (uint8_t)take();
    }
    memcpy(&value, raw, sizeof value);
    return lta_double(way % 2 ? value : (double)take_number());
  }
  if (!strncmp(kind, "bool", 4)) {
    return lta_bool((int)(way % 2));
  }
  if (!strncmp(kind, "str", 3)) {
    char text[32];
    const size_t size = take() % sizeof text;
    for (size_t i = 0; i < size; ++i) {
      text[i] = (char)(' ' + take() % 95); /* UTF-8 is what the API takes */
    }
    return lta_string(text, size);
  }
  return take_tensor(way % 4 == 3);
}

static void call(lta_module *module) {
  const size_t methods = lta_module_method_count(module);
  const char *method = methods ? lta_module_method_name(module, take() % methods) : "forward";
  lta_value *schema = lta_module_schema(module, method);
  const char *text = "";
  size_t size = 0;
  lta_value_string(schema, &text, &size);
  const char *at = strchr(text, '(');
  lta_value *arguments[ARGUMENTS_MAX] = {NULL};
  size_t count = 0;
  for (int depth = 0; at && *at && count < ARGUMENTS_MAX; ++at) {
    depth += *at == '(' || *at == '[';
    depth -= *at == ')' || *at == ']';
    if (depth == 0) {
      break;
    }
    if (depth == 1 && (*at == '(' || *at == ',') && at[1] != ')') {
      arguments[count++] = take_value(at + (*at == ',' ? 2 : 1), 0);
    }
  }
  lta_value *result = NULL;
  if (lta_module_run(module, method, (const lta_value *const *)arguments, count, &result) == LTA_OK) {
    read_value(result, 0);
  }
  lta_value_free(result);
  for (size_t i = 0; i < count; ++i) {
    lta_value_free(arguments[i]);
  }
  lta_value_free(schema);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc;
  (void)argv;
  const char *path = getenv("MODELS");
  while (path && *path && model_count < MODELS_MAX) {
    const size_t length = strcspn(path, ":");
    char *name = strndup(path, length);
    FILE *file = fopen(name, "rb");
    free(name);
    if (!file || fseek(file, 0, SEEK_END)) {
      perror("MODELS");
      exit(2);
    }
    models[model_count].size = (size_t)ftell(file);
    models[model_count].data = malloc(models[model_count].size);
    rewind(file);
    if (fread(models[model_count].data, 1, models[model_count].size, file) !=
        models[model_count].size) {
      exit(2);
    }
    fclose(file);
    ++model_count;
    path += length + (path[length] == ':');
  }
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  bytes = data;
  left = size;
  const size_t chosen = take() % (model_count ? model_count : 1);
  lta_module *module = NULL;
  if (lta_module_load_memory(models[chosen].data, models[chosen].size, &module) != LTA_OK) {
    fprintf(stderr, "%s\n", lta_last_error());
    abort();
  }
  const unsigned calls = 1 + take() % CALLS;
  for (unsigned i = 0; i < calls; ++i) {
    call(module);
  }
  lta_module_free(module);
  return 0;
}
