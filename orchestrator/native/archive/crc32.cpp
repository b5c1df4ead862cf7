// The checksum of a model's records, for miniz (-DUSE_EXTERNAL_MZCRC): by the processor's instructions
// where it has them, else eight bytes at a time.
//
// miniz's own takes a byte at a time, which makes loading a model take three times as long. Tables for
// more at a time are 8 KB: they are made when the first model is loaded, and no library carries them.
// The polynomial is zip's (PKWARE, APPNOTE.TXT 4.4.7), bits reversed; the method with tables is
// "slicing-by-8" (Kounavis and Berry, "A systematic approach to building high performance
// software-based CRC generators", 2005). x86-64 multiplies without carry (Gopal, Ozturk, Guilford et
// al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009); arm64 has
// instructions for this very polynomial, which ARMv8.0 leaves optional.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <wmmintrin.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

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

uint32_t by_tables(uint32_t crc, const unsigned char* data, size_t size) {
  static const Tables tables;
  const auto& of = tables.of;
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
  return crc;
}

#if defined(__x86_64__)

bool multiplies_without_carry() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_PCLMUL) != 0;
}

#define LTA_PCLMUL __attribute__((target("pclmul")))

// 16 bytes, moved as far as the factors' powers say, over the next 16: the same remainder.
LTA_PCLMUL inline __m128i folded(__m128i bytes, __m128i powers, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(bytes, powers, 0x00);
  const __m128i high = _mm_clmulepi64_si128(bytes, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

LTA_PCLMUL inline __m128i sixteen(const unsigned char* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

// Of at least 64 bytes.
LTA_PCLMUL uint32_t by_multiplication(uint32_t crc, const unsigned char* data, size_t size) {
  // x^(4*128+32) and x^(4*128-32), x^(128+32) and x^(128-32) modulo the polynomial, bits reversed
  const __m128i by_64 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
  const __m128i by_16 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
  __m128i lanes[4];
  for (int lane = 0; lane < 4; ++lane) {
    lanes[lane] = sixteen(data + 16 * lane);
  }
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(int(crc)));
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
    for (int lane = 0; lane < 4; ++lane) {
      lanes[lane] = folded(lanes[lane], by_64, sixteen(data + 16 * lane));
    }
  }
  __m128i rest = lanes[0];
  for (int lane = 1; lane < 4; ++lane) {
    rest = folded(rest, by_16, lanes[lane]);
  }
  unsigned char bytes[16];
  memcpy(bytes, &rest, sizeof bytes);
  return by_tables(by_tables(0, bytes, sizeof bytes), data, size);
}

uint32_t updated(uint32_t crc, const unsigned char* data, size_t size) {
  static const bool multiplies = multiplies_without_carry();
  return multiplies && size >= 64 ? by_multiplication(crc, data, size) : by_tables(crc, data, size);
}

#elif defined(__aarch64__) && defined(__linux__)

__attribute__((target("crc"))) uint32_t by_instruction(uint32_t crc, const unsigned char* data,
                                                       size_t size) {
  for (; size >= 8; size -= 8, data += 8) {
    uint64_t eight;
    memcpy(&eight, data, 8);
    crc = __builtin_arm_crc32d(crc, eight);
  }
  for (; size != 0; --size, ++data) {
    crc = __builtin_arm_crc32b(crc, *data);
  }
  return crc;
}

uint32_t updated(uint32_t crc, const unsigned char* data, size_t size) {
  constexpr unsigned long kCrc32 = 1 << 7; // HWCAP_CRC32
  static const bool has_instruction = (getauxval(AT_HWCAP) & kCrc32) != 0;
  return has_instruction ? by_instruction(crc, data, size) : by_tables(crc, data, size);
}

#else

uint32_t updated(uint32_t crc, const unsigned char* data, size_t size) {
  return by_tables(crc, data, size);
}

#endif

} // namespace

extern "C" unsigned long mz_crc32(unsigned long before, const unsigned char* data, size_t size) {
  return data == nullptr ? 0 : static_cast<uint32_t>(~updated(~static_cast<uint32_t>(before), data, size));
}
