/* Reads all that a model gives, to the byte: an allocator that looks sees a byte more. */
#ifndef READING_H
#define READING_H

#include <libtorch_app.h>
#include <stdlib.h>

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

#endif /* READING_H */
