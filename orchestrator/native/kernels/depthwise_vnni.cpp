// Depthwise convolutions by AVX-512 VNNI: an instruction adds four products of 8 bits to 32 bits.
//
// It takes four numbers side by side, which are those of one channel in four rows of a column. So four rows
// of the images are interleaved, 16, 32 or 64 channels at once, in the order in which unpacking within
// 128 bits leaves them; packing the sums to 8 bits undoes it. Places of the result that have a column in
// common take it from the same memory.
//
// The instruction's first numbers are unsigned: the input is shifted by 128, and the bias has what that
// adds. No sum of it saturates, so results are XNNPACK's.
#include "depthwise.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <immintrin.h>
#include <xnnpack/hardware-config.h>

namespace lta {
namespace {

#define LTA_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#define LTA_VNNI_INLINE static inline LTA_VNNI __attribute__((always_inline))

// One register's worth of channels.
#define LTA_LANES(Name, Ints, Floats, prefix)                                                        \
  struct Name {                                                                                      \
    typedef Ints I;                                                                                  \
    typedef Floats F;                                                                                \
    static constexpr size_t kChannels = sizeof(I);                                                   \
    LTA_VNNI_INLINE I all8(int8_t x) { return prefix##_set1_epi8(x); }                               \
    LTA_VNNI_INLINE I all16(int16_t x) { return prefix##_set1_epi16(x); }                            \
    LTA_VNNI_INLINE F all(float x) { return prefix##_set1_ps(x); }                                   \
    LTA_VNNI_INLINE I low8(I a, I b) { return prefix##_unpacklo_epi8(a, b); }                        \
    LTA_VNNI_INLINE I high8(I a, I b) { return prefix##_unpackhi_epi8(a, b); }                       \
    LTA_VNNI_INLINE I low16(I a, I b) { return prefix##_unpacklo_epi16(a, b); }                      \
    LTA_VNNI_INLINE I high16(I a, I b) { return prefix##_unpackhi_epi16(a, b); }                     \
    LTA_VNNI_INLINE I add(I sum, I a, I b) { return prefix##_dpbusd_epi32(sum, a, b); }              \
    LTA_VNNI_INLINE F floats(I a) { return prefix##_cvtepi32_ps(a); }                                \
    LTA_VNNI_INLINE F smaller(F a, F b) { return prefix##_min_ps(a, b); }                            \
    LTA_VNNI_INLINE I round(F a) { return prefix##_cvtps_epi32(a); }                                 \
    LTA_VNNI_INLINE I pack32(I a, I b) { return prefix##_packs_epi32(a, b); }                        \
    LTA_VNNI_INLINE I pack16(I a, I b) { return prefix##_packs_epi16(a, b); }                        \
    LTA_VNNI_INLINE I add16(I a, I b) { return prefix##_adds_epi16(a, b); }                          \
    LTA_VNNI_INLINE I larger8(I a, I b) { return prefix##_max_epi8(a, b); }                          \
  };
LTA_LANES(Sixteen, __m128i, __m128, _mm)
LTA_LANES(ThirtyTwo, __m256i, __m256, _mm256)
LTA_LANES(SixtyFour, __m512i, __m512, _mm512)
#undef LTA_LANES

template <class V>
LTA_VNNI_INLINE V load(const void* from) {
  V found;
  std::memcpy(&found, from, sizeof found);
  return found;
}
template <class V>
LTA_VNNI_INLINE void store(void* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

// Four rows of images, or of what lies around them; step: from a column to the next.
struct Rows {
  const int8_t* first[4];
  int64_t step[4];
};

// One column of them, some channels.
template <class L>
LTA_VNNI_INLINE void interleave(const Rows& rows, int64_t column, size_t channel, char* to) {
  using I = typename L::I;
  constexpr size_t size = sizeof(I);
  const I shift = L::all8(-128);
  I found[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    found[i] = load<I>(rows.first[i] + column * rows.step[i] + channel) ^ shift;
  }
  const I low_ab = L::low8(found[0], found[1]), high_ab = L::high8(found[0], found[1]);
  const I low_cd = L::low8(found[2], found[3]), high_cd = L::high8(found[2], found[3]);
  store(to, L::low16(low_ab, low_cd));
  store(to + size, L::high16(low_ab, low_cd));
  store(to + 2 * size, L::low16(high_ab, high_cd));
  store(to + 3 * size, L::high16(high_ab, high_cd));
}

// Places of the result side by side, some channels of them.
// columns: interleaved ones, `groups` times four registers each
// next:    bytes from one of the kernel's columns to the next
// step:    from those of one result to those of the next
// packed:  bias, factors, and for each column and each four rows of the kernel the weights; four
//          registers each
struct Run {
  const char* columns;
  size_t next, step, wide, groups, count, channels;
  const char* packed;
  int8_t* to;
  float most; // less the zero point
  int16_t zero;
  int8_t least;
};

// The sums of one place, as 8 bits.
template <class L>
LTA_VNNI_INLINE void finish(const Run& of, typename L::I (&s)[4], const typename L::F (&factors)[4],
                            int8_t* to) {
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    s[i] = L::round(L::smaller(L::floats(s[i]) * factors[i], L::all(of.most)));
  }
  const typename L::I zero = L::all16(of.zero);
  const typename L::I low = L::add16(L::pack32(s[0], s[1]), zero);
  const typename L::I high = L::add16(L::pack32(s[2], s[3]), zero);
  store(to, L::larger8(L::pack16(low, high), L::all8(of.least)));
}

// three: the kernel has three columns of four rows at most; its weights stay in registers
template <class L, bool three>
LTA_VNNI_INLINE void run_places(const Run& given) {
  using I = typename L::I;
  constexpr size_t size = sizeof(I);
  const Run of = given; // what is stored is nothing of it
  I bias[4], first[12];
  typename L::F factors[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    bias[i] = load<I>(of.packed + i * size);
    factors[i] = load<typename L::F>(of.packed + (4 + i) * size);
  }
  const char* const weights = of.packed + 8 * size;
  if (three) {
#pragma GCC unroll 12
    for (size_t i = 0; i < 12; ++i) {
      first[i] = load<I>(weights + i * size);
    }
  }
  const char* columns = of.columns;
  int8_t* to = of.to;
  for (size_t left = of.count; left > 0; --left, columns += of.step, to += of.channels) {
    I s[4] = {bias[0], bias[1], bias[2], bias[3]};
    if constexpr (three) {
#pragma GCC unroll 12
      for (size_t i = 0; i < 12; ++i) {
        s[i % 4] = L::add(s[i % 4], load<I>(columns + i / 4 * of.next + i % 4 * size), first[i]);
      }
    } else {
      const char *column = columns, *weight = weights;
      for (size_t x = 0; x < of.wide; ++x, column += of.next) {
        for (size_t group = 0; group < of.groups; ++group, weight += 4 * size) {
#pragma GCC unroll 4
          for (size_t i = 0; i < 4; ++i) {
            s[i] = L::add(s[i], load<I>(column + (group * 4 + i) * size), load<I>(weight + i * size));
          }
        }
      }
    }
    finish<L>(of, s, factors, to);
  }
}

// Channels that are computed at once: so many from `first` on.
struct Block {
  size_t first, channels, packed; // where it is packed
};

class DepthwiseVnni : public Depthwise {
 public:
  explicit DepthwiseVnni(const DepthwiseLayer& of)
      : of_(of), wide_(size_t(of.size[1])), groups_(groups_of(of)), zeros_(of.channels, of.input_zero) {
    // The last of them may compute some channels once more.
    const size_t all = of.channels;
    size_t packed = 0;
    for (size_t done = 0; done < all;) {
      const size_t left = all - done;
      const size_t channels = left > 48 && all >= 64 ? 64 : left > 16 && all >= 32 ? 32 : 16;
      blocks_.push_back({done + channels <= all ? done : all - channels, channels, packed});
      packed += channels * 4 * (2 + wide_ * groups_);
      done += channels;
    }
    packed_.resize(packed + kAlignment);
    start_ = packed_.data() + (kAlignment - uintptr_t(packed_.data()) % kAlignment) % kAlignment;
    for (const Block& block : blocks_) {
      pack(block);
    }
    of_.kernel = nullptr; // they are the caller's
    of_.factors = nullptr;
    of_.bias = nullptr;
  }

  static size_t groups_of(const DepthwiseLayer& of) { return (size_t(of.size[0]) + 3) / 4; }

  // Whether the columns of one result have room.
  static bool fits(const DepthwiseLayer& of) {
    return of.channels >= 16 && of.size[0] <= kMostRows &&
        (of.size[1] - 1) * of.dilation[1] < int64_t(kRoom / (groups_of(of) * 4 * 64));
  }

  void run(const DepthwiseImages& images, pthreadpool_t pool) const override {
    const Task task{this, &images};
    pthreadpool_parallelize_1d(
        pool,
        [](void* given, size_t row) {
          const Task& own = *static_cast<const Task*>(given);
          own.self->run_row(*own.images, int64_t(row));
        },
        const_cast<Task*>(&task), size_t(images.batch * images.out[0]), /*flags=*/0);
  }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr int64_t kMostRows = 16;   // of a kernel
  static constexpr size_t kRoom = 16 * 1024; // for interleaved columns: half of a first-level cache

  struct Task {
    const DepthwiseVnni* self;
    const DepthwiseImages* images;
  };

  void pack(const Block& block) {
    const size_t quarter = block.channels; // bytes of one register
    char* const to = start_ + block.packed;
    for (size_t i = 0; i < block.channels; ++i) {
      // where unpacking leaves a channel: of each 16, four go to each register
      const size_t in = (i % 16) / 4 * quarter + (i / 16 * 4 + i % 4) * 4;
      const size_t channel = block.first + i;
      const int8_t* weight = of_.kernel + channel * size_t(of_.size[0]) * wide_;
      int32_t sum = 0;
      for (size_t y = 0; y < size_t(of_.size[0]); ++y) {
        for (size_t x = 0; x < wide_; ++x, ++weight) {
          sum += *weight;
          to[(2 + x * groups_ + y / 4) * 4 * quarter + in + y % 4] = char(*weight);
        }
      }
      // modulo 2^32, as the sums are
      const uint32_t bias = uint32_t(of_.bias[channel]) - uint32_t(of_.input_zero + 128) * uint32_t(sum);
      std::memcpy(to + in, &bias, sizeof bias);
      std::memcpy(to + 4 * quarter + in, &of_.factors[channel], sizeof(float));
    }
  }

  void run_row(const DepthwiseImages& images, int64_t row) const {
    const auto channels = int64_t(of_.channels);
    const int64_t height = images.in[0], width = images.in[1];
    const int8_t* const image = images.from + row / images.out[0] * height * width * channels;
    const int64_t top = row % images.out[0] * of_.stride[0] - of_.padding[0];
    // Rows that are beyond the kernel's have weights of 0.
    Rows rows[kMostRows / 4];
    for (size_t i = 0; i < groups_ * 4; ++i) {
      const int64_t y = top + std::min(int64_t(i), of_.size[0] - 1) * of_.dilation[0];
      const bool is_there = y >= 0 && y < height;
      rows[i / 4].first[i % 4] = is_there ? image + y * width * channels : zeros_.data();
      rows[i / 4].step[i % 4] = is_there ? channels : 0;
    }
    int8_t* const to = images.to + row * images.out[1] * channels;
    for (const Block& block : blocks_) {
      const bool three = wide_ == 3 && groups_ == 1;
      if (block.channels == 64) {
        three ? run_block<SixtyFour, true>(images, rows, block, to)
              : run_block<SixtyFour, false>(images, rows, block, to);
      } else if (block.channels == 32) {
        three ? run_block<ThirtyTwo, true>(images, rows, block, to)
              : run_block<ThirtyTwo, false>(images, rows, block, to);
      } else {
        three ? run_block<Sixteen, true>(images, rows, block, to)
              : run_block<Sixteen, false>(images, rows, block, to);
      }
    }
  }

  // A row of the result, some channels, as many places at a time as have room.
  template <class L, bool three>
  LTA_VNNI void run_block(const DepthwiseImages& images, const Rows* rows, const Block& block,
                          int8_t* to) const {
    using I = typename L::I;
    alignas(kAlignment) char columns[kRoom];
    const size_t groups = three ? 1 : groups_, each = groups * 4 * sizeof(I);
    const int64_t room = int64_t(kRoom / each), stride = of_.stride[1];
    const int64_t reach = (of_.size[1] - 1) * of_.dilation[1];
    const int64_t most = (room - 1 - reach) / stride + 1;
    const I around = L::all8(int8_t(of_.input_zero ^ 0x80));
    Run one{columns, size_t(of_.dilation[1]) * each, size_t(stride) * each, wide_, groups, 0,
            of_.channels, start_ + block.packed, to + block.first,
            float(INT8_MAX - of_.output_zero), of_.output_zero, of_.least};
    for (int64_t done = 0; done < images.out[1]; done += most) {
      const int64_t count = std::min(most, images.out[1] - done);
      char* next = columns;
      int64_t column = done * stride - of_.padding[1];
      for (int64_t left = (count - 1) * stride + reach + 1; left > 0; --left, ++column) {
        if (column < 0 || column >= images.in[1]) {
          for (size_t i = 0; i < groups * 4; ++i, next += sizeof(I)) {
            store(next, around);
          }
          continue;
        }
        for (size_t group = 0; group < groups; ++group, next += 4 * sizeof(I)) {
          interleave<L>(rows[group], column, block.first, next);
        }
      }
      one.count = size_t(count);
      run_places<L, three>(one);
      one.to += count * int64_t(of_.channels);
    }
  }

  DepthwiseLayer of_;
  const size_t wide_, groups_; // the kernel's columns, and four rows of it
  const std::vector<int8_t> zeros_;
  std::vector<Block> blocks_;
  std::vector<char> packed_;
  char* start_;
};

std::unique_ptr<Depthwise> make(const DepthwiseLayer& of) {
  const xnn_hardware_config* const config = xnn_init_hardware_config();
  if (config == nullptr || !config->use_x86_avx512vnni || !DepthwiseVnni::fits(of)) {
    return nullptr;
  }
  return std::make_unique<DepthwiseVnni>(of);
}

struct Start {
  Start() { make_depthwise = make; }
} start;

} // namespace
} // namespace lta
