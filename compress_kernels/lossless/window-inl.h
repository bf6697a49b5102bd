// Chooses the window of a tile, as tile.h says. Compiled once per target.
//
// A histogram of 128 samples, whose exponents are mostly alike, waits for itself: it took half the
// time of encoding. So that is left to tiles where the guess from the mean does not hold.
#if defined(COMPRESS_KERNELS_LOSSLESS_WINDOW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef COMPRESS_KERNELS_LOSSLESS_WINDOW_INL_H_
#undef COMPRESS_KERNELS_LOSSLESS_WINDOW_INL_H_
#else
#define COMPRESS_KERNELS_LOSSLESS_WINDOW_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "compress_kernels/lossless/bytes-inl.h"
#include "compress_kernels/lossless/tile.h"

HWY_BEFORE_NAMESPACE();
namespace ringpress::compress_kernels::lossless {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR

constexpr std::size_t kLargestSample = kTileElements / kGroup * kGroupSamples;

/// The elements that a window is chosen from; what is missing of kLargestSample is 0.
template <typename T>
struct Picked {
  HWY_ALIGN std::byte bytes[kLargestSample * sizeof(T)];

  HWY_INLINE Picked(const std::byte* values, std::size_t elements) {
#if HWY_TARGET <= HWY_AVX3
    if (sizeof(T) == 2 && elements == kTileElements) {
      pick_from_tile(values);
      return;
    }
#endif
    constexpr std::size_t kBytes = kGroupSamples * sizeof(T);
    const std::size_t groups = elements / kGroup;
    for (std::size_t g = 0; g < groups; ++g) {
      std::memcpy(bytes + g * kBytes, values + first_sample(g) * sizeof(T), kBytes);
    }
    std::memset(bytes + groups * kBytes, 0, sizeof bytes - groups * kBytes);
  }

#if HWY_TARGET <= HWY_AVX3
  /// Of elements of two bytes. The samples of a group are a quarter of a vector, of four groups in
  /// a row four different quarters: whole vectors are stored, so that loads need not wait.
  HWY_INLINE void pick_from_tile(const std::byte* values) {
    for (std::size_t first = 0; first < kTileElements / kGroup; first += 4) {
      const std::byte* from = values + first * kGroup * 2 + first % 8 * kGroupSamples * 2;
      __m512i samples = _mm512_setzero_si512();
      samples = _mm512_mask_loadu_epi64(samples, 0x03, from);
      samples = _mm512_mask_loadu_epi64(samples, 0x0C, from + kGroup * 2);
      samples = _mm512_mask_loadu_epi64(samples, 0x30, from + kGroup * 4);
      samples = _mm512_mask_loadu_epi64(samples, 0xC0, from + kGroup * 6);
      _mm512_store_si512(bytes + first * kGroupSamples * 2, samples);
    }
  }
#endif
};

/// Their exponents, in any order.
struct Samples {
  HWY_ALIGN std::uint8_t bytes[kLargestSample];
  std::size_t count = 0;

  template <typename T>
  HWY_INLINE Samples(const Picked<T>& picked, std::size_t elements) : count(sample_size(elements)) {
    for (std::size_t i = 0; i < kLargestSample; i += kVectorBytes) {
      const std::byte* from = picked.bytes + i * sizeof(T);
      const Shorts a = exponents_of<T>(from);
      const Shorts b = exponents_of<T>(from + kVectorBytes / 2 * sizeof(T));
      hn::Store(pack_in_any_order(a, b), kByteTag, bytes + i);
    }
  }

 private:
  template <typename T>
  static HWY_INLINE Shorts exponents_of(const std::byte* from) {
    const auto load = [](auto d, const std::byte* address) {
      return core::HWY_NAMESPACE::load_any(d, address);
    };
    if constexpr (std::is_same_v<T, float>) {
      const Shorts upper = pack(hn::ShiftRight<16>(load(kWordTag, from)),
                                hn::ShiftRight<16>(load(kWordTag, from + kVectorBytes)));
      return hn::And(hn::ShiftRight<7>(upper), hn::Set(kShortTag, std::uint16_t{0xFF}));
    } else if constexpr (std::is_same_v<T, core::Float16>) {
      const Shorts shifted = hn::ShiftRight<10>(load(kShortTag, from));
      return hn::And(shifted, hn::Set(kShortTag, std::uint16_t{31}));
    } else {
      const Shorts shifted = hn::ShiftRight<7>(load(kShortTag, from));
      return hn::And(shifted, hn::Set(kShortTag, std::uint16_t{0xFF}));
    }
  }
};

/// How many samples have an exponent from `first` on, less than `length` above it.
HWY_INLINE int count_row(const Samples& samples, int first, int length) {
  const Bytes start = hn::Set(kByteTag, static_cast<std::uint8_t>(first));
  const Bytes end = hn::Set(kByteTag, static_cast<std::uint8_t>(length));
  std::size_t count = 0;
  for (std::size_t from = 0; from < kLargestSample; from += kGroup) {
    Bits inside;
    for (std::size_t i = 0; i < kGroup; i += kVectorBytes) {
      const Bytes exponents = hn::Load(kByteTag, samples.bytes + from + i);
      put_bits(hn::Lt(hn::Sub(exponents, start), end), i, &inside);
    }
    count += count_bits(inside);
  }
  return static_cast<int>(count);
}

HWY_INLINE SampleSums sums_of(const Samples& samples) {
  const hn::Repartition<std::uint64_t, ByteTag> long_tag;
  auto sum = hn::Zero(long_tag);
  for (std::size_t i = 0; i < kLargestSample; i += kVectorBytes) {
    sum = hn::Add(sum, hn::SumsOf8(hn::Load(kByteTag, samples.bytes + i)));
  }
  const auto exponents = static_cast<int>(hn::GetLane(hn::SumOfLanes(long_tag, sum)));
  const auto missing = static_cast<int>(kLargestSample - samples.count);
  return {static_cast<int>(samples.count), count_row(samples, 0, 1) - missing, exponents};
}

/// Where there is no guess. Not inline, as that is rare.
HWY_NOINLINE Window choose_by_counting(const Samples& samples, const SampleSums& sums,
                                       int exponent_bits) {
  // Four counters of each exponent, so that equal neighbours do not wait for each other.
  std::uint8_t counters[4][256] = {};
  for (std::size_t i = 0; i < kLargestSample; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) ++counters[k][samples.bytes[i + k]];
  }
  Histogram seen;
  seen.add(0, sums.zeros);
  for (int e = 1; e < 1 << exponent_bits; ++e) {
    const int count = counters[0][e] + counters[1][e] + counters[2][e] + counters[3][e];
    if (count > 0) seen.add(e, count);
  }
  return choose_by_histogram(seen, sums.count);
}

template <typename T>
HWY_INLINE Window choose(const void* values, std::size_t elements) {
  const Picked<T> picked(static_cast<const std::byte*>(values), elements);
  const Samples samples(picked, elements);
  const SampleSums sums = sums_of(samples);
  const int lowest = lowest_guess(sums);
  if (HWY_UNLIKELY(lowest < 0)) {
    return choose_by_counting(samples, sums, kExponentBits<T>);
  }
  int best = 0;
  for (int i = 0; i < kGuesses; ++i) {
    best = std::max(best, rank_guess(count_row(samples, lowest + i, kShortCodes), i));
  }
  const int first_short = best_guess(sums, lowest, best);
  if (HWY_UNLIKELY(first_short < 0)) {
    return choose_by_counting(samples, sums, kExponentBits<T>);
  }
  return window_around(first_short, sums.zeros, count_row(samples, last_of_window(first_short), 1));
}

#endif
}  // namespace HWY_NAMESPACE
}  // namespace ringpress::compress_kernels::lossless
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
