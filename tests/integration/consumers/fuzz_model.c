/* libFuzzer's target for damaged models. The bytes are the records bytecode.pkl, data.pkl and the
 * tensors' bytes, with SEPARATOR between them: a model's archive is made of them with the checksums
 * that fit, loaded, and each method runs without arguments and with a picture. */
#include "reading.h"
#include <libtorch_app.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t SEPARATOR[] = {0xf7, 'R', 'E', 'C'};
static const char *const NAMES[] = {"m/bytecode.pkl", "m/data.pkl", "m/data/0", "m/version"};
enum { RECORDS = 4, ARCHIVE_MAX = 1 << 20, SIDE = 8 };

static uint8_t archive[ARCHIVE_MAX];
static size_t end;

static void put(uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) {
    archive[end++] = (uint8_t)(value >> 8 * i);
  }
}

static uint32_t crc32_of(const uint8_t *data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
  }
  return ~crc;
}

typedef struct record {
  const uint8_t *data;
  size_t size, at;
} record;

/* Sections 4.3.7 and 4.3.12 of PKWARE's APPNOTE, from the version needed to the extra field's length. */
static void put_header(const record *each, const char *name) {
  put(20, 2), put(0, 2), put(0, 2), put(0, 2), put(0x21, 2);
  put(crc32_of(each->data, each->size), 4), put(each->size, 4), put(each->size, 4);
  put(strlen(name), 2), put(0, 2);
}

static void put_text(const char *text) {
  memcpy(archive + end, text, strlen(text));
  end += strlen(text);
}

static void put_archive(record *records) {
  end = 0;
  for (int i = 0; i < RECORDS; ++i) {
    records[i].at = end;
    put(0x04034b50, 4);
    put_header(&records[i], NAMES[i]);
    put_text(NAMES[i]);
    memcpy(archive + end, records[i].data, records[i].size);
    end += records[i].size;
  }
  const size_t directory = end;
  for (int i = 0; i < RECORDS; ++i) {
    put(0x02014b50, 4), put(20, 2);
    put_header(&records[i], NAMES[i]);
    put(0, 2), put(0, 2), put(0, 2), put(0, 4), put(records[i].at, 4);
    put_text(NAMES[i]);
  }
  const size_t size = end - directory;
  put(0x06054b50, 4), put(0, 4), put(RECORDS, 2), put(RECORDS, 2);
  put(size, 4), put(directory, 4), put(0, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > ARCHIVE_MAX / 2) {
    return -1;
  }
  record records[RECORDS] = {{data, 0, 0}, {data, 0, 0}, {data, 0, 0}, {(const uint8_t *)"3\n", 2, 0}};
  int which = 0;
  for (size_t i = 0; i < size; ++i) {
    if (which < 2 && size - i >= sizeof SEPARATOR && !memcmp(data + i, SEPARATOR, sizeof SEPARATOR)) {
      records[++which].data = data + i + sizeof SEPARATOR;
      i += sizeof SEPARATOR - 1;
    } else {
      ++records[which].size;
    }
  }
  put_archive(records);
  lta_module *module = NULL;
  if (lta_module_load_memory(archive, end, &module) != LTA_OK) {
    return 0;
  }
  const int64_t shape[] = {1, 3, SIDE, SIDE};
  lta_value *picture =
      lta_tensor_copy(LTA_FLOAT32, 4, shape, NULL, NULL, 3 * SIDE * SIDE * sizeof(float));
  const lta_value *arguments[] = {picture};
  for (size_t i = 0; i < lta_module_method_count(module) && i < 4; ++i) {
    for (size_t count = 0; count < 2; ++count) {
      lta_value *result = NULL;
      const char *method = lta_module_method_name(module, i);
      if (lta_module_run(module, method, arguments, count, &result) == LTA_OK) {
        read_value(result, 0);
      }
      lta_value_free(result);
    }
  }
  lta_value_free(picture);
  lta_module_free(module);
  return 0;
}
