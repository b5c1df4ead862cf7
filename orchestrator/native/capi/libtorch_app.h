/* The C API of an app's libtorch: the only symbols that the shared library exports.
 *
 * Contract
 *   - Pure C11, usable from C++. No C++ exception crosses it.
 *   - A function that can fail returns an lta_status, or a handle that is NULL on failure. After a
 *     failure lta_last_error() tells what was wrong; it is per thread and holds until the next
 *     failure on that thread.
 *   - Every lta_value that a function hands out belongs to the caller, who frees it with
 *     lta_value_free(). A value that is put into a list, a tuple, a dict or a call is not consumed:
 *     the container keeps its own reference. Tensors are shared by reference, never copied
 *     silently.
 *   - Different modules may be used by different threads at once. One module must be used by one
 *     thread at a time. A value may move between threads, not be used by two at once.
 *   - No function reads or writes numbers by the process's locale. A run computes in the floating-point
 *     mode of its caller (rounding, flush-to-zero), on all of the library's threads.
 *   - A child of fork can use the library, and the modules that no other thread was using. So a fork
 *     waits until no other thread is in a call that loads, runs or asks for operators: ten seconds at
 *     most. After these the child may hang in such a call.
 *   - NULL for a pointer is LTA_INVALID_ARGUMENT where nothing is said of it. A call that fails
 *     writes no result.
 *   - Models run without autograd (PyTorch's InferenceMode), on the CPU.
 *   - A model is a program. Load those that you trust: that you made, or had made, and that reach the
 *     app unchanged (in its package, or with a signature that you check). Damage by accident is
 *     found: LTA_LOAD_FAILED. So is much that is made to harm, and what these functions give you
 *     stays within its memory; but PyTorch does not check all that a model does, and one that is
 *     made for it can crash the process, write into its memory, or take all of its memory and time.
 *
 * A call, without the checks:
 *   lta_module *module = NULL;
 *   lta_module_load("model.ptl", &module);
 *   int64_t shape[] = {1, 3, 96, 96};
 *   lta_value *image = lta_tensor_copy(LTA_FLOAT32, 4, shape, NULL, pixels, sizeof pixels);
 *   const lta_value *arguments[] = {image};
 *   lta_value *scores = NULL;
 *   if (lta_module_run(module, "forward", arguments, 1, &scores) != LTA_OK)
 *     puts(lta_last_error());
 */
#ifndef LIBTORCH_APP_H
#define LIBTORCH_APP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) || defined(__clang__)
#define LTA_API __attribute__((visibility("default")))
#else
#define LTA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised by one when a caller built against an older header could break. */
#define LTA_API_VERSION 1

typedef struct lta_module lta_module; /* a loaded model */
typedef struct lta_value lta_value;   /* an argument or a result, of any kind */

typedef enum lta_status {
  LTA_OK = 0,
  LTA_INVALID_ARGUMENT = 1,  /* a NULL, an index out of range, a key that is not there, sizes that
                                do not fit, a number of arguments that the method does not take */
  LTA_WRONG_KIND = 2,        /* the value is of another kind than the function, or the method, wants */
  LTA_LOAD_FAILED = 3,       /* not readable, not a lite-interpreter model, or damaged */
  LTA_UNSUPPORTED_MODEL = 4, /* a model of a bytecode version that this runtime does not read */
  LTA_MISSING_OPERATOR = 5,  /* an operator that was not selected into this library */
  LTA_MISSING_DTYPE = 6,     /* a kernel that was selected without this dtype */
  LTA_NO_SUCH_METHOD = 7,    /* the model has no method of that name */
  LTA_RUN_FAILED = 8,        /* the model, or an operator in it, refused its input */
  LTA_OUT_OF_MEMORY = 9,
  LTA_INTERNAL = 10          /* none of the above: a bug of the library */
} lta_status;

typedef enum lta_kind {
  LTA_KIND_NONE = 0,
  LTA_KIND_BOOL = 1,
  LTA_KIND_INT = 2,
  LTA_KIND_DOUBLE = 3,
  LTA_KIND_STRING = 4,
  LTA_KIND_TENSOR = 5,
  LTA_KIND_LIST = 6,
  LTA_KIND_TUPLE = 7,
  LTA_KIND_DICT = 8,
  LTA_KIND_OTHER = 9 /* an object, a device, ...: it can be passed on, not looked into */
} lta_kind;

/* Numbered as PyTorch's ScalarType. */
typedef enum lta_dtype {
  LTA_UINT8 = 0,
  LTA_INT8 = 1,
  LTA_INT16 = 2,
  LTA_INT32 = 3,
  LTA_INT64 = 4,
  LTA_FLOAT16 = 5,
  LTA_FLOAT32 = 6,
  LTA_FLOAT64 = 7,
  LTA_COMPLEX32 = 8,
  LTA_COMPLEX64 = 9,
  LTA_COMPLEX128 = 10,
  LTA_BOOL = 11,
  LTA_QINT8 = 12,
  LTA_QUINT8 = 13,
  LTA_QINT32 = 14,
  LTA_BFLOAT16 = 15,
  LTA_QUINT4X2 = 16, /* several elements in a byte: can be looked at, not created */
  LTA_QUINT2X4 = 17
} lta_dtype;

/* ---- The library ---- */

/* LTA_API_VERSION of the library itself. */
LTA_API uint32_t lta_api_version(void);
/* The runtime, such as "PyTorch 1.13.1, bytecode 4 to 9". Never freed. */
LTA_API const char *lta_version(void);
/* What was selected into the library: the sha256, in hex, that its manifest has as
 * `selection_digest`. Libraries with the same operators, dtypes, classes and features say the same,
 * whatever the ABI. Never freed. */
LTA_API const char *lta_selection_digest(void);
/* 1 if an operator such as "aten::add.Tensor" can be called in this library, else 0. */
LTA_API int lta_has_operator(const char *name);

/* ---- Add-ons ---- */

/* Adds to this library what an add-on has: a shared library that `orchestrate addon` made for this
 * very build, so that the models that it was made for can be loaded too. `path` is the file.
 *
 * It waits until no model is loaded or run, and those that are to be wait for it. So it must not be
 * called by what a run calls (a tensor's deleter). What it has added stays until the process ends. An
 * add-on that is there already is LTA_OK.
 *
 * LTA_INVALID_ARGUMENT: this library was made without `extensible: true`. LTA_LOAD_FAILED: `path` is
 * no add-on, is damaged, is for another build of the library, or fails to register itself; then
 * nothing of it stays. An add-on is a program: load what you trust. */
LTA_API lta_status lta_library_extend(const char *path);

/* ---- Threads ---- */

/* How many threads a model may use, the caller's own among them: `threads` of the app.yaml that the
 * library was made for, or what lta_set_threads() said. */
LTA_API int lta_threads(void);
/* Sets it for this library in this process, for all modules and all callers: 1 to 1024. Runs that go
 * on keep what they began with. With a lower number than before, threads that are no longer wanted
 * have ended when this returns; it waits for what they compute just now.
 * LTA_INVALID_ARGUMENT for other numbers, and for more than 1 where the library was made with
 * `threads: 1` (the default): it has no code for them.
 *
 * The library starts its threads when a model first has work for them. They sleep between runs, and
 * end when the library is unloaded; they get no signals. One run at a time uses them: others that go
 * on at once each compute on their caller's thread. How the work is cut depends on this number alone,
 * so equal runs give equal results, and another number may give others in the last digits. A child
 * of fork starts threads of its own. */
LTA_API lta_status lta_set_threads(int count);

/* ---- Errors ---- */

/* What the last failure on this thread was; "" if there was none. */
LTA_API const char *lta_last_error(void);
/* The status of the last failure on this thread, for functions that return a handle. */
LTA_API lta_status lta_last_status(void);
/* The names in the last failure, one a line: for LTA_MISSING_OPERATOR the operators, for
 * LTA_MISSING_DTYPE the kernel tag and then the dtype, for LTA_NO_SUCH_METHOD the methods that there
 * are, else "". */
LTA_API const char *lta_last_error_names(void);
/* "MISSING_OPERATOR" for LTA_MISSING_OPERATOR, and so on. */
LTA_API const char *lta_status_name(lta_status status);

/* ---- Modules ---- */

/* Loads a `.ptl` file. Fails with LTA_MISSING_OPERATOR, naming all of them, where the model names
 * operators that this library does not have. The file may not change during this call. Afterwards it
 * may be removed or replaced; where it is written in place, a run that needs weights again which have
 * left memory since fails with LTA_RUN_FAILED. */
LTA_API lta_status lta_module_load(const char *path, lta_module **module);
/* The same from memory. The bytes are read during this call only; nothing keeps a pointer. */
LTA_API lta_status lta_module_load_memory(const void *data, size_t size, lta_module **module);
LTA_API void lta_module_free(lta_module *module);

/* The methods that can be run, in the order of the model file. A name lives as long as the
 * module; NULL for an index that is out of range. */
LTA_API size_t lta_module_method_count(const lta_module *module);
LTA_API const char *lta_module_method_name(const lta_module *module, size_t index);
LTA_API int64_t lta_module_bytecode_version(const lta_module *module);

/* What a method takes and gives, as a string: "forward(Tensor image, float scale=...) -> Tensor". What
 * has a default, or is optional, may be left out of a call. A model of bytecode version 4 may not
 * tell it: "forward(?, ?)" where just the number is known, else "forward(...)". */
LTA_API lta_value *lta_module_schema(const lta_module *module, const char *method);

/* Runs a method. `arguments` are the arguments without self, and may be NULL where there are none;
 * `result` is the caller's. The arguments are held against the schema before the method begins: it
 * fails with LTA_INVALID_ARGUMENT if their number does not fit, with LTA_WRONG_KIND if one's kind
 * does not, and tells which. Nothing is converted: an int is no float. */
LTA_API lta_status lta_module_run(lta_module *module, const char *method,
                                  const lta_value *const *arguments, size_t count,
                                  lta_value **result);

/* ---- Values ---- */

/* Lists, tuples and dicts nest at most 64 deep; what a model returned counts as flat. */
LTA_API lta_value *lta_none(void);
LTA_API lta_value *lta_bool(int value);
LTA_API lta_value *lta_int(int64_t value);
LTA_API lta_value *lta_double(double value);
/* `size` bytes of UTF-8; they are copied. */
LTA_API lta_value *lta_string(const char *data, size_t size);
LTA_API lta_value *lta_tuple(const lta_value *const *items, size_t count);
/* A list has the type of its items, or, where there are none, `empty` as their kind. A method that takes
 * lists of another type to which all items belong, as List[Tensor] if there are none, or
 * List[Optional[Tensor]], is given a new list of that type. So are dicts, and lists in lists and tuples. */
LTA_API lta_value *lta_list(lta_kind empty, const lta_value *const *items, size_t count);
/* Likewise. Keys are int, double, bool, string or tensor. */
LTA_API lta_value *lta_dict(lta_kind empty_key, lta_kind empty_value,
                            const lta_value *const *keys, const lta_value *const *values,
                            size_t count);
LTA_API void lta_value_free(lta_value *value);

/* An undefined tensor is LTA_KIND_NONE, and so is NULL. */
LTA_API lta_kind lta_value_kind(const lta_value *value);
LTA_API lta_status lta_value_bool(const lta_value *value, int *result);
LTA_API lta_status lta_value_int(const lta_value *value, int64_t *result);
LTA_API lta_status lta_value_double(const lta_value *value, double *result);
/* `data` lives as long as the value and ends with a zero that `size` does not count. */
LTA_API lta_status lta_value_string(const lta_value *value, const char **data, size_t *size);
/* Items of a list, a tuple or a dict. */
LTA_API lta_status lta_value_size(const lta_value *value, size_t *size);
/* An item of a list or a tuple. */
LTA_API lta_status lta_value_item(const lta_value *value, size_t index, lta_value **item);
/* An entry of a dict, in the order of insertion; steps through all entries before it. */
LTA_API lta_status lta_value_entry(const lta_value *value, size_t index, lta_value **key,
                                   lta_value **item);
/* The item of a dict at a key. LTA_INVALID_ARGUMENT where there is none. A tensor is found by itself,
 * not by its elements. */
LTA_API lta_status lta_value_find(const lta_value *value, const lta_value *key, lta_value **item);
/* The same for a key that is text, ended by a zero, or an int. Of the caller's own code: the library
 * does not export them. */
static inline lta_status lta_value_find_string(const lta_value *value, const char *key,
                                               lta_value **item) {
  lta_value *text = lta_string(key, key ? strlen(key) : 1);
  const lta_status status = text ? lta_value_find(value, text, item) : lta_last_status();
  lta_value_free(text);
  return status;
}
static inline lta_status lta_value_find_int(const lta_value *value, int64_t key,
                                            lta_value **item) {
  lta_value *number = lta_int(key);
  const lta_status status = number ? lta_value_find(value, number, item) : lta_last_status();
  lta_value_free(number);
  return status;
}

/* ---- Tensors ---- */

/* A tensor has at most 64 dimensions, and its elements, laid out one after the other, take less than
 * 2^63 bytes, whatever its strides. Functions refuse others. */

/* Bytes of one element; 0 for a dtype that is not one, or that packs several into a byte. */
LTA_API size_t lta_dtype_size(lta_dtype dtype);
/* "float32" for LTA_FLOAT32, and so on; NULL for no dtype. */
LTA_API const char *lta_dtype_name(lta_dtype dtype);

/* A tensor with a copy of `data`. `strides` are in elements, none negative; NULL is contiguous.
 * `nbytes` must be exactly what shape and strides span. NULL `data` gives a tensor of zeros, and NULL
 * is the shape of one without dimensions. */
LTA_API lta_value *lta_tensor_copy(lta_dtype dtype, size_t ndim, const int64_t *shape,
                                   const int64_t *strides, const void *data, size_t nbytes);
/* A tensor over the caller's memory, which must live, and be aligned for its dtype, until
 * `deleter(context)` is called: exactly once, whatever `context` is. On success that is when the last
 * reference is gone, on any thread; if this call fails, before it returns: the memory is not the
 * caller's to free after it. NULL `deleter`: the caller knows. A model may write into its inputs. */
LTA_API lta_value *lta_tensor_borrow(lta_dtype dtype, size_t ndim, const int64_t *shape,
                                     const int64_t *strides, void *data, size_t nbytes,
                                     void (*deleter)(void *context), void *context);
/* A contiguous tensor quantised per tensor, with a copy of its integers. It needs PyTorch's
 * operator aten::_empty_affine_quantized and fails with LTA_MISSING_OPERATOR (the status is
 * lta_last_status()) in a library whose models do not use it. */
LTA_API lta_value *lta_tensor_copy_quantized(lta_dtype dtype, size_t ndim, const int64_t *shape,
                                             const void *data, size_t nbytes, double scale,
                                             int64_t zero_point);
typedef struct lta_tensor_info {
  lta_dtype dtype;
  size_t ndim;
  const int64_t *shape;   /* ndim sizes; lives as long as the value */
  const int64_t *strides; /* ndim strides in elements; lives as long as the value */
  size_t numel;
  size_t nbytes;          /* of the elements when contiguous: what lta_tensor_read() writes */
  void *data;             /* first element; NULL if there is none, or if it is not dense */
  int is_contiguous;
  int is_quantized;
} lta_tensor_info;

LTA_API lta_status lta_tensor_describe(const lta_value *value, lta_tensor_info *info);
/* Copies the elements, contiguous and in row-major order, into `nbytes` bytes (info.nbytes). */
LTA_API lta_status lta_tensor_read(const lta_value *value, void *buffer, size_t nbytes);
/* Scale and zero point of a tensor that is quantised per tensor. */
LTA_API lta_status lta_tensor_quantization(const lta_value *value, double *scale,
                                           int64_t *zero_point);
/* Of one quantised per channel: the channels' axis, and scales and zero points as tensors. */
LTA_API lta_status lta_tensor_channel_quantization(const lta_value *value, int64_t *axis,
                                                   lta_value **scales, lta_value **zero_points);

#ifdef __cplusplus
}
#endif
#endif /* LIBTORCH_APP_H */
