// The checksum of a model's records, for miniz (-DUSE_EXTERNAL_MZCRC): eight bytes at a time.
//
// miniz's own takes a byte at a time, which makes loading a model take three times as long. Tables for
// more at a time are 8 KB: they are made when the first model is loaded, and no library carries them.
// The polynomial is zip's (PKWARE, APPNOTE.TXT 4.4.7), bits reversed; the method is "slicing-by-8"
// (Kounavis and Berry, "A systematic approach to building high performance software-based CRC
// generators", 2005).
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte is the lowest");

namespace {

struct Tables {
  // [n][byte]: what a byte with n bytes behind it comes to
  uint32_t of[8][256];

  Tables() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t crc = byte;
      for (int bit = 0; bit < 8; ++bit) {
        crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
      }
      of[0][byte] = crc;
    }
    for (int n = 1; n < 8; ++n) {
      for (uint32_t byte = 0; byte < 256; ++byte) {
        const uint32_t before = of[n - 1][byte];
        of[n][byte] = (before >> 8) ^ of[0][before & 0xFF];
      }
    }
  }
};

} // namespace

extern "C" unsigned long mz_crc32(unsigned long before, const unsigned char* data, size_t size) {
  static const Tables tables;
  const auto& of = tables.of;
  if (data == nullptr) {
    return 0;
  }
  uint32_t crc = ~static_cast<uint32_t>(before);
  for (; size >= 8; size -= 8, data += 8) {
    uint32_t low;
    uint32_t high;
    memcpy(&low, data, 4);
    memcpy(&high, data + 4, 4);
    low ^= crc;
    crc = of[7][low & 0xFF] ^ of[6][(low >> 8) & 0xFF] ^ of[5][(low >> 16) & 0xFF] ^
        of[4][low >> 24] ^ of[3][high & 0xFF] ^ of[2][(high >> 8) & 0xFF] ^
        of[1][(high >> 16) & 0xFF] ^ of[0][high >> 24];
  }
  for (; size != 0; --size, ++data) {
    crc = (crc >> 8) ^ of[0][(crc ^ *data) & 0xFF];
  }
  return static_cast<uint32_t>(~crc);
}
