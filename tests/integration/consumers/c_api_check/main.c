/* Checks the C API against any model with bundled inputs for forward; prints "ok".
 * usage: check MODEL */
#include <libtorch_app.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) {                                                              \
      fprintf(stderr, "line %d: %s\n  last error: %s: %s\n", __LINE__, #condition,   \
              lta_status_name(lta_last_status()), lta_last_error());                 \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

static const char *model_path;

static void check_scalars(void) {
  lta_value *values[] = {lta_none(), lta_bool(7), lta_int(INT64_MIN), lta_double(-0.5),
                         lta_string("a\0b", 3)};
  int boolean = 0;
  int64_t integer = 0;
  double real = 0;
  const char *text = NULL;
  size_t size = 0;
  for (int kind = LTA_KIND_NONE; kind <= LTA_KIND_STRING; ++kind) {
    CHECK(lta_value_kind(values[kind]) == (lta_kind)kind);
  }
  CHECK(lta_value_bool(values[1], &boolean) == LTA_OK && boolean == 1);
  CHECK(lta_value_int(values[2], &integer) == LTA_OK && integer == INT64_MIN);
  CHECK(lta_value_double(values[3], &real) == LTA_OK && real == -0.5);
  CHECK(lta_value_string(values[4], &text, &size) == LTA_OK && size == 3);
  CHECK(memcmp(text, "a\0b", 4) == 0);
  CHECK(lta_value_int(values[1], &integer) == LTA_WRONG_KIND);
  CHECK(strcmp(lta_last_error(), "the value is of another kind") == 0);
  CHECK(lta_value_int(NULL, &integer) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_kind(NULL) == LTA_KIND_NONE);
  for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
    lta_value_free(values[i]);
  }
  lta_value_free(NULL);
}

static void check_containers(void) {
  lta_value *one = lta_int(1);
  lta_value *two = lta_int(2);
  lta_value *key = lta_string("k", 1);
  const lta_value *items[] = {one, two};
  const lta_value *keys[] = {key};
  const lta_value *nothing[] = {NULL};
  lta_value *list = lta_list(LTA_KIND_OTHER, items, 2);
  lta_value *tuple = lta_tuple(items, 2);
  const lta_value *values[] = {list};
  lta_value *dict = lta_dict(LTA_KIND_OTHER, LTA_KIND_OTHER, keys, values, 1);
  lta_value *got = NULL;
  lta_value *got_key = NULL;
  int64_t integer = 0;
  size_t size = 0;
  lta_value_free(one);
  lta_value_free(two);
  lta_value_free(key);
  CHECK(list && tuple && dict);
  CHECK(lta_value_kind(list) == LTA_KIND_LIST && lta_value_kind(tuple) == LTA_KIND_TUPLE);
  CHECK(lta_value_size(list, &size) == LTA_OK && size == 2);
  CHECK(lta_value_item(tuple, 1, &got) == LTA_OK);
  CHECK(lta_value_int(got, &integer) == LTA_OK && integer == 2);
  lta_value_free(got);
  CHECK(lta_value_item(list, 2, &got) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_kind(dict) == LTA_KIND_DICT);
  CHECK(lta_value_entry(dict, 0, &got_key, &got) == LTA_OK);
  CHECK(lta_value_kind(got_key) == LTA_KIND_STRING && lta_value_kind(got) == LTA_KIND_LIST);
  CHECK(lta_value_entry(dict, 1, &got_key, &got) == LTA_INVALID_ARGUMENT);
  lta_value_free(got_key);
  lta_value_free(got);
  CHECK(lta_list(LTA_KIND_OTHER, nothing, 1) == NULL);
  CHECK(lta_last_status() == LTA_INVALID_ARGUMENT);
  CHECK(lta_dict(LTA_KIND_OTHER, LTA_KIND_OTHER, values, values, 1) == NULL); /* a list as key */
  lta_value_free(list);
  lta_value_free(tuple);
  lta_value_free(dict);
}

/* A dict's items by key. */
static void check_keys(void) {
  lta_value *words[] = {lta_string("boxes", 5), lta_string("scores", 6)};
  lta_value *numbers[] = {lta_int(-3), lta_int(7)};
  lta_value *by_word = lta_dict(LTA_KIND_OTHER, LTA_KIND_OTHER, (const lta_value *const *)words,
                                (const lta_value *const *)numbers, 2);
  lta_value *by_number = lta_dict(LTA_KIND_OTHER, LTA_KIND_OTHER, (const lta_value *const *)numbers,
                                  (const lta_value *const *)words, 2);
  lta_value *empty = lta_dict(LTA_KIND_STRING, LTA_KIND_INT, NULL, NULL, 0);
  lta_value *got = NULL;
  lta_value *none = lta_none();
  int64_t integer = 0;
  const char *text = NULL;
  size_t size = 0;
  CHECK(lta_value_find_string(by_word, "scores", &got) == LTA_OK);
  CHECK(lta_value_int(got, &integer) == LTA_OK && integer == 7);
  lta_value_free(got);
  CHECK(lta_value_find_int(by_number, -3, &got) == LTA_OK);
  CHECK(lta_value_string(got, &text, &size) == LTA_OK && strcmp(text, "boxes") == 0);
  lta_value_free(got);
  got = NULL;
  CHECK(lta_value_find_string(by_word, "score", &got) == LTA_INVALID_ARGUMENT);
  CHECK(strcmp(lta_last_error(), "the dict has no such key") == 0);
  CHECK(lta_value_find_string(by_word, "", &got) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_find_int(by_word, 7, &got) == LTA_INVALID_ARGUMENT); /* an item, no key */
  CHECK(lta_value_find_int(empty, 7, &got) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_find_string(by_word, NULL, &got) == LTA_INVALID_ARGUMENT);
  CHECK(strcmp(lta_last_error(), "the string is NULL") == 0);
  CHECK(lta_value_find_int(by_number, 7, NULL) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_find_int(numbers[0], 7, &got) == LTA_WRONG_KIND);
  CHECK(lta_value_find_int(NULL, 7, &got) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_find(by_word, none, &got) == LTA_INVALID_ARGUMENT);
  CHECK(lta_value_find(by_word, by_word, &got) == LTA_INVALID_ARGUMENT); /* a dict has no hash */
  CHECK(got == NULL);
  for (int i = 0; i < 2; ++i) {
    lta_value_free(words[i]);
    lta_value_free(numbers[i]);
  }
  lta_value_free(by_word);
  lta_value_free(by_number);
  lta_value_free(empty);
  lta_value_free(none);
}

static void count_call(void *context) { ++*(int *)context; }

static void check_tensors(void) {
  const int64_t shape[] = {2, 3};
  const int64_t transposed[] = {1, 2}; /* column-major */
  const int64_t negative[] = {-1, 3};
  const int64_t huge[] = {INT64_MAX, INT64_MAX};
  float data[] = {0, 1, 2, 3, 4, 5};
  float out[6];
  int calls = 0;
  lta_tensor_info info;
  lta_value *tensor = lta_tensor_copy(LTA_FLOAT32, 2, shape, transposed, data, sizeof data);
  CHECK(tensor && lta_tensor_describe(tensor, &info) == LTA_OK);
  CHECK(info.dtype == LTA_FLOAT32 && info.ndim == 2 && info.shape[1] == 3 && info.strides[1] == 2);
  CHECK(info.numel == 6 && info.nbytes == sizeof data && !info.is_contiguous && info.data != data);
  CHECK(lta_tensor_read(tensor, out, sizeof out) == LTA_OK);
  CHECK(out[0] == 0 && out[1] == 2 && out[2] == 4 && out[3] == 1 && out[4] == 3 && out[5] == 5);
  CHECK(lta_tensor_read(tensor, out, 4) == LTA_INVALID_ARGUMENT);
  lta_value_free(tensor);

  tensor = lta_tensor_borrow(LTA_FLOAT32, 2, shape, NULL, data, sizeof data, count_call, &calls);
  CHECK(tensor && lta_tensor_describe(tensor, &info) == LTA_OK);
  CHECK(info.data == data && info.is_contiguous);
  const lta_value *items[] = {tensor};
  lta_value *list = lta_list(LTA_KIND_OTHER, items, 1);
  lta_value_free(tensor);
  CHECK(calls == 0);
  lta_value_free(list);
  CHECK(calls == 1);

  for (int dtype = LTA_UINT8; lta_dtype_name((lta_dtype)dtype); ++dtype) {
    const size_t size = lta_dtype_size((lta_dtype)dtype);
    const int quantized = dtype >= LTA_QINT8 && dtype != LTA_BFLOAT16;
    tensor = lta_tensor_copy((lta_dtype)dtype, 2, shape, NULL, NULL, 6 * size);
    CHECK((tensor == NULL) == quantized);
    if (tensor) {
      char zeros[6 * 16];
      CHECK(lta_tensor_read(tensor, zeros, 6 * size) == LTA_OK && zeros[0] == 0);
      CHECK(lta_tensor_describe(tensor, &info) == LTA_OK && info.dtype == (lta_dtype)dtype);
    }
    lta_value_free(tensor);
  }

  tensor = lta_tensor_copy(LTA_INT64, 0, NULL, NULL, &(int64_t){42}, 8); /* no dimension */
  CHECK(tensor && lta_tensor_describe(tensor, &info) == LTA_OK && info.numel == 1);
  CHECK(*(int64_t *)info.data == 42);
  lta_value_free(tensor);
  tensor = lta_tensor_copy(LTA_FLOAT32, 1, &(int64_t){0}, NULL, NULL, 0); /* no element */
  CHECK(tensor && lta_tensor_describe(tensor, &info) == LTA_OK && info.numel == 0);
  CHECK(info.data == NULL && lta_tensor_read(tensor, NULL, 0) == LTA_OK);
  lta_value_free(tensor);

  CHECK(lta_tensor_copy(LTA_FLOAT32, 2, shape, NULL, data, 20) == NULL);
  CHECK(lta_tensor_copy(LTA_FLOAT32, 2, negative, NULL, data, 24) == NULL);
  CHECK(lta_tensor_copy(LTA_FLOAT32, 2, huge, NULL, data, 24) == NULL);
  CHECK(lta_tensor_copy((lta_dtype)99, 2, shape, NULL, data, 24) == NULL);
}

static int calls_without_context;
static void count_any_call(void *context) {
  CHECK(context == NULL);
  ++calls_without_context;
}

/* Whoever lends memory is told once when it is his again: without a context too, and if it fails. */
static void check_loans(void) {
  const int64_t shape[] = {2, 3};
  float data[6] = {0};
  int calls = 0;
  lta_value *tensor = lta_tensor_borrow(LTA_FLOAT32, 2, shape, NULL, data, sizeof data,
                                        count_any_call, NULL);
  CHECK(tensor && calls_without_context == 0);
  lta_value_free(tensor);
  CHECK(calls_without_context == 1);
  CHECK(!lta_tensor_borrow(LTA_FLOAT32, 2, shape, NULL, NULL, 24, count_call, &calls));
  CHECK(lta_last_status() == LTA_INVALID_ARGUMENT && calls == 1);
  CHECK(!lta_tensor_borrow(LTA_FLOAT32, 2, shape, NULL, data, 20, count_any_call, NULL));
  CHECK(calls_without_context == 2);
  tensor = lta_tensor_borrow(LTA_FLOAT32, 1, &(int64_t){0}, NULL, NULL, 0, count_call, &calls);
  CHECK(tensor && calls == 1);
  lta_value_free(tensor);
  CHECK(calls == 2);
  tensor = lta_tensor_borrow(LTA_FLOAT32, 2, shape, NULL, data, sizeof data, NULL, NULL);
  CHECK(tensor);
  lta_value_free(tensor);
}

/* Sizes whose product overflows: with strides of 0 they need next to no memory. */
static void check_too_large(void) {
  const int64_t wrapping[] = {((int64_t)1 << 61) + 1}; /* doubles: 8 bytes, modulo 2^64 */
  const int64_t none[] = {(int64_t)1 << 61};           /* 0 bytes */
  const int64_t most[] = {((int64_t)1 << 60) - 1};
  const int64_t same[] = {0};
  double number = 0.5;
  int calls = 0;
  lta_tensor_info info;
  const int64_t *shapes[] = {wrapping, none};
  for (int i = 0; i < 2; ++i) {
    CHECK(!lta_tensor_copy(LTA_FLOAT64, 1, shapes[i], same, &number, sizeof number));
    CHECK(lta_last_status() == LTA_INVALID_ARGUMENT);
    CHECK(strcmp(lta_last_error(), "the tensor is too large") == 0);
    CHECK(!lta_tensor_borrow(LTA_FLOAT64, 1, shapes[i], same, &number, sizeof number, count_call,
                             &calls));
    CHECK(strcmp(lta_last_error(), "the tensor is too large") == 0 && calls == i + 1);
  }
  lta_value *tensor = lta_tensor_copy(LTA_FLOAT64, 1, most, same, &number, sizeof number);
  CHECK(tensor && lta_tensor_describe(tensor, &info) == LTA_OK);
  CHECK(info.numel == (size_t)most[0] && info.nbytes == info.numel * 8);
  CHECK(lta_tensor_read(tensor, &number, 8) == LTA_INVALID_ARGUMENT);
  lta_value_free(tensor);
}

static void check_dimensions(void) {
  int64_t shape[65];
  int64_t strides[65];
  float data[4] = {0, 1, 2, 3};
  float out[4];
  for (int i = 0; i < 65; ++i) {
    shape[i] = 1;
    strides[i] = 1;
  }
  shape[0] = shape[63] = 2; /* the first is the inner one */
  strides[63] = 2;
  lta_value *tensor = lta_tensor_copy(LTA_FLOAT32, 64, shape, strides, data, sizeof data);
  CHECK(tensor && lta_tensor_read(tensor, out, sizeof out) == LTA_OK);
  CHECK(out[0] == 0 && out[1] == 2 && out[2] == 1 && out[3] == 3);
  lta_value_free(tensor);
  CHECK(!lta_tensor_copy(LTA_FLOAT32, 65, shape, strides, data, sizeof data));
  CHECK(strcmp(lta_last_error(), "the tensor has more than 64 dimensions") == 0);
}

/* Puts a value into so many tuples, lists and dicts; NULL if one of them is refused. */
static lta_value *nested(lta_value *value, int times) {
  lta_value *key = lta_int(1);
  const lta_value *keys[] = {key};
  for (int i = 0; value && i < times; ++i) {
    const lta_value *items[] = {value};
    lta_value *outer = i % 3 == 0   ? lta_tuple(items, 1)
                       : i % 3 == 1 ? lta_list(LTA_KIND_OTHER, items, 1)
                                    : lta_dict(LTA_KIND_INT, LTA_KIND_OTHER, keys, items, 1);
    lta_value_free(value);
    value = outer;
  }
  lta_value_free(key);
  return value;
}

static void check_nesting(void) {
  lta_value *deepest = nested(lta_int(5), 64);
  lta_value *inner = NULL;
  CHECK(deepest && lta_value_item(deepest, 0, &inner) == LTA_OK);
  inner = nested(inner, 1); /* what comes out of 64 is 63 deep */
  CHECK(inner);
  CHECK(nested(inner, 1) == NULL && lta_last_status() == LTA_INVALID_ARGUMENT);
  CHECK(strcmp(lta_last_error(), "the values nest more than 64 deep") == 0);
  CHECK(nested(deepest, 300000) == NULL);
}

static lta_value *run_first_input(lta_module *module) {
  lta_value *inputs = NULL;
  lta_value *input = NULL;
  lta_value *arguments[16];
  lta_value *result = NULL;
  size_t count = 0;
  CHECK(lta_module_run(module, "get_all_bundled_inputs", NULL, 0, &inputs) == LTA_OK);
  CHECK(lta_value_item(inputs, 0, &input) == LTA_OK);
  CHECK(lta_value_size(input, &count) == LTA_OK && count <= 16);
  for (size_t i = 0; i < count; ++i) {
    CHECK(lta_value_item(input, i, &arguments[i]) == LTA_OK);
  }
  CHECK(lta_module_run(module, "forward", (const lta_value *const *)arguments, count, &result) ==
        LTA_OK);
  for (size_t i = 0; i < count; ++i) {
    lta_value_free(arguments[i]);
  }
  lta_value_free(input);
  lta_value_free(inputs);
  return result;
}

static void *load_and_run(void *unused) {
  for (int i = 0; i < 20; ++i) {
    lta_module *module = NULL;
    CHECK(lta_module_load(model_path, &module) == LTA_OK);
    lta_value_free(run_first_input(module));
    lta_module_free(module);
  }
  return unused;
}

static void check_modules(void) {
  FILE *file = fopen(model_path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  const size_t size = (size_t)ftell(file);
  char *bytes = malloc(size);
  rewind(file);
  CHECK(bytes && fread(bytes, 1, size, file) == size);
  fclose(file);

  lta_module *module = NULL;
  CHECK(lta_module_load_memory(bytes, size / 2, &module) == LTA_LOAD_FAILED);
  CHECK(lta_module_load_memory("not a model", 11, &module) == LTA_LOAD_FAILED);
  CHECK(lta_module_load_memory(NULL, 0, &module) == LTA_LOAD_FAILED);
  CHECK(lta_module_load("no such file", &module) == LTA_LOAD_FAILED);
  CHECK(strcmp(lta_last_error(), "cannot be opened: no such file") == 0);
  CHECK(module == NULL && lta_module_load_memory(bytes, size, &module) == LTA_OK);
  memset(bytes, 0, size); /* nothing keeps a pointer into it */
  free(bytes);

  int has_forward = 0;
  for (size_t i = 0; i < lta_module_method_count(module); ++i) {
    has_forward |= strcmp(lta_module_method_name(module, i), "forward") == 0;
  }
  CHECK(has_forward && lta_module_method_name(module, 1000) == NULL);
  CHECK(lta_module_bytecode_version(module) >= 4);
  lta_value *result = run_first_input(module);
  lta_module_free(module);
  CHECK(lta_value_kind(result) != LTA_KIND_NONE); /* a result outlives its module */
  lta_value_free(result);

  CHECK(lta_module_load(model_path, &module) == LTA_OK);
  CHECK(lta_module_run(module, "no_such", NULL, 0, &result) == LTA_NO_SUCH_METHOD);
  CHECK(strstr(lta_last_error(), "the model has no method no_such; it has "));
  CHECK(strstr(lta_last_error_names(), "forward\n"));
  CHECK(lta_module_schema(module, "no_such") == NULL && lta_last_status() == LTA_NO_SUCH_METHOD);
  lta_value *schema = lta_module_schema(module, "forward");
  const char *takes = NULL;
  size_t length = 0;
  CHECK(lta_value_string(schema, &takes, &length) == LTA_OK);
  CHECK(strncmp(takes, "forward(Tensor ", 15) == 0);
  CHECK(lta_module_run(module, "forward", NULL, 0, &result) == LTA_INVALID_ARGUMENT);
  CHECK(strncmp(lta_last_error(), "forward(Tensor ", 15) == 0);
  CHECK(strstr(lta_last_error(), " is missing") && lta_last_error_names()[0] == '\0');
  lta_value *text = lta_string("x", 1);
  const lta_value *arguments[64];
  for (int i = 0; i < 64; ++i) {
    arguments[i] = text;
  }
  CHECK(lta_module_run(module, "forward", arguments, 64, &result) == LTA_INVALID_ARGUMENT);
  CHECK(strstr(lta_last_error(), " is too many"));
  size_t count = 0; /* as many as it takes, all of a wrong kind */
  do {
    ++count;
  } while (lta_module_run(module, "forward", arguments, count, &result) == LTA_INVALID_ARGUMENT);
  CHECK(lta_last_status() == LTA_WRONG_KIND && strstr(lta_last_error(), " is str, not Tensor"));
  lta_value_free(schema);
  lta_value_free(text);
  lta_module_free(module);
  lta_module_free(NULL);

  CHECK(lta_has_operator("aten::no_such_operator") == 0);
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: check MODEL\n");
    return 2;
  }
  model_path = argv[1];
  CHECK(lta_api_version() == LTA_API_VERSION);
  CHECK(strstr(lta_version(), "PyTorch 1.13.1") == lta_version());
  CHECK(strspn(lta_selection_digest(), "0123456789abcdef") == 64);
  CHECK(strlen(lta_selection_digest()) == 64);
  check_scalars();
  check_containers();
  check_keys();
  check_tensors();
  check_loans();
  check_too_large();
  check_dimensions();
  check_nesting();
  check_modules();
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) {
    CHECK(pthread_create(&threads[i], NULL, load_and_run, NULL) == 0);
  }
  for (int i = 0; i < 4; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
  }
  puts("ok");
  return 0;
}
