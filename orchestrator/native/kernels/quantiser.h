// Floats to 8-bit integers. PyTorch has vectors for it on ARM; on x86-64 it calls the C library for each
// number. Results are the same, bit by bit: a number that is too large for 64 bits, or that is none,
// gives 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <emmintrin.h>

namespace lta {

struct Quantiser {
  float inverse; // of the scale
  int16_t zero;
  uint8_t flip;  // 0x80 for signed results

  __m128i four(const float* from) const {
    const __m128 most = _mm_set1_ps(0x1p63f), bound = _mm_set1_ps(1024);
    const __m128 x = _mm_mul_ps(_mm_loadu_ps(from), _mm_set1_ps(inverse));
    // NaN: the second of the two is taken
    const __m128 least = _mm_max_ps(x, _mm_sub_ps(_mm_setzero_ps(), bound));
    const __m128 bounded = _mm_min_ps(least, bound);
    return _mm_cvtps_epi32(_mm_sub_ps(
        bounded, _mm_and_ps(_mm_cmpge_ps(x, most), _mm_add_ps(bound, bound))));
  }

  void sixteen(const float* from, uint8_t* to) const {
    const __m128i all = _mm_set1_epi16(zero);
    const __m128i low = _mm_adds_epi16(_mm_packs_epi32(four(from), four(from + 4)), all);
    const __m128i high = _mm_adds_epi16(_mm_packs_epi32(four(from + 8), four(from + 12)), all);
    const __m128i found = _mm_xor_si128(_mm_packus_epi16(low, high), _mm_set1_epi8(char(flip)));
    std::memcpy(to, &found, sizeof found);
  }

  // Not inlined: it would be there three times.
  __attribute__((noinline)) void row(const float* from, uint8_t* to, int64_t count) const {
    for (; count >= 16; count -= 16, from += 16, to += 16) {
      sixteen(from, to);
    }
    if (count > 0) {
      float some[16] = {};
      uint8_t found[16];
      std::memcpy(some, from, size_t(count) * sizeof *some);
      sixteen(some, found);
      std::memcpy(to, found, size_t(count));
    }
  }

  // An image: its channels, one after the other, come to lie side by side.
  void image(const float* from, uint8_t* to, int64_t channels, int64_t area) const {
    constexpr int64_t kPlaces = 64, kChannels = 16;
    uint8_t tile[kChannels][kPlaces];
    for (int64_t first = 0; first < channels; first += kChannels) {
      const int64_t some = std::min(kChannels, channels - first);
      for (int64_t place = 0; place < area; place += kPlaces) {
        const int64_t count = std::min(kPlaces, area - place);
        for (int64_t i = 0; i < some; ++i) {
          row(from + (first + i) * area + place, tile[i], count);
        }
        uint8_t* out = to + place * channels + first;
        for (int64_t at = 0; at < count; ++at, out += channels) {
          for (int64_t i = 0; i < some; ++i) {
            out[i] = tile[i][at];
          }
        }
      }
    }
  }
};

} // namespace lta
