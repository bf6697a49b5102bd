// What a lane of a warp reads and writes: groups of 8 neighbouring values, and the bytes that 8
// codes take. 16 bytes at a time where the array is aligned to that, else elements or bytes. Arrays
// of values are aligned to their elements; wire bytes need not be.
//
// `Simt` is what an agent runs on (tile_agent.cuh). Its load and store want aligned addresses.
#ifndef COMPRESS_KERNELS_CORE_SIMT_MEMORY_CUH_
#define COMPRESS_KERNELS_CORE_SIMT_MEMORY_CUH_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

/// Values of a group. Codes of B bits take B whole bytes.
inline constexpr unsigned kGroup = 8;

/// 16 bytes that are read or written at once.
struct alignas(16) Quad {
  std::uint32_t words[4];
};

RINGPRESS_DEVICE bool is_aligned(const void* address, std::size_t bytes) {
  return (reinterpret_cast<std::uintptr_t>(address) & (bytes - 1)) == 0;
}

/// An unsigned integer of the size of T.
template <typename T>
using Raw = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>;

template <typename T>
RINGPRESS_DEVICE float widen_raw(std::uint32_t raw) {
  if constexpr (sizeof(T) == 4) {
    return float_of(raw);
  } else {
    return widen(T{static_cast<std::uint16_t>(raw)});
  }
}

template <typename T>
RINGPRESS_DEVICE std::uint32_t narrow_raw(float value) {
  if constexpr (sizeof(T) == 4) {
    return bits_of(value);
  } else {
    return narrow<T>(value).bits;
  }
}

/// x = the 8 elements from `index` on, a multiple of kGroup. The array is aligned to 16 bytes.
template <typename T, typename Simt>
RINGPRESS_DEVICE void load_quads(const Simt& simt, const void* array, std::size_t index,
                                 float (&x)[kGroup]) {
  const std::byte* from = static_cast<const std::byte*>(array) + index * sizeof(T);
  RINGPRESS_UNROLL
  for (unsigned q = 0; q < kGroup * sizeof(T) / sizeof(Quad); ++q) {
    const Quad quad = simt.template load<Quad>(from + q * sizeof(Quad));
    constexpr unsigned kPerWord = 4 / sizeof(T);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < 4 * kPerWord; ++k) {
      const std::uint32_t word = quad.words[k / kPerWord];
      x[q * 4 * kPerWord + k] =
          widen_raw<T>(kPerWord == 1 ? word : word >> (16 * (k % 2)) & 0xFFFFu);
    }
  }
}

/// x = the `valid` elements from `index` on, a multiple of kGroup; zeros in the place of what lies
/// beyond them.
template <typename T, typename Simt>
RINGPRESS_DEVICE void load_group(const Simt& simt, const void* array, std::size_t index,
                                 unsigned valid, float (&x)[kGroup]) {
  if (valid == kGroup && is_aligned(array, sizeof(Quad))) {
    load_quads<T>(simt, array, index, x);
    return;
  }
  const std::byte* from = static_cast<const std::byte*>(array) + index * sizeof(T);
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) {
    x[k] = k < valid ? widen_raw<T>(simt.template load<Raw<T>>(from + k * sizeof(T))) : 0.0f;
  }
}

/// The words of a group of elements, the first one lowest.
template <typename T, typename Simt>
RINGPRESS_DEVICE void narrow_group(const Simt& simt, const float (&x)[kGroup],
                                   std::uint32_t (&words)[kGroup * sizeof(T) / 4]) {
  if constexpr (sizeof(T) == 4) {
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kGroup; ++k) words[k] = bits_of(x[k]);
  } else {
    // The hardware rounds as narrow() does, but makes one NaN of all. The sum finds them in few
    // instructions; infinities of both signs pass for one.
    float sum = x[0];
    RINGPRESS_UNROLL
    for (unsigned k = 1; k < kGroup; ++k) sum += x[k];
    const bool has_nan = magnitude_bits(sum) > kInfinityBits;
    if (has_nan) {
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kGroup / 2; ++k) {
        words[k] = narrow_raw<T>(x[2 * k]) | narrow_raw<T>(x[2 * k + 1]) << 16;
      }
    } else {
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kGroup / 2; ++k) {
        words[k] = simt.template narrow_pair<T>(x[2 * k], x[2 * k + 1]);
      }
    }
  }
}

/// Writes the 8 elements from `index` on. As load_quads().
template <typename T, typename Simt>
RINGPRESS_DEVICE void store_quads(const Simt& simt, void* array, std::size_t index,
                                  const float (&x)[kGroup]) {
  std::byte* to = static_cast<std::byte*>(array) + index * sizeof(T);
  std::uint32_t words[kGroup * sizeof(T) / 4];
  narrow_group<T>(simt, x, words);
  RINGPRESS_UNROLL
  for (unsigned q = 0; q < kGroup * sizeof(T) / sizeof(Quad); ++q) {
    simt.store(to + q * sizeof(Quad),
               Quad{words[4 * q], words[4 * q + 1], words[4 * q + 2], words[4 * q + 3]});
  }
}

/// Writes those of the first `valid` elements whose bit in `mask` is set.
template <typename T, typename Simt>
RINGPRESS_DEVICE void store_elements(const Simt& simt, void* array, std::size_t index,
                                     unsigned valid, const float (&x)[kGroup], unsigned mask) {
  std::byte* to = static_cast<std::byte*>(array) + index * sizeof(T);
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) {
    if (k >= valid || (mask >> k & 1u) == 0) continue;
    simt.store(to + k * sizeof(T), static_cast<Raw<T>>(narrow_raw<T>(x[k])));
  }
}

/// As store_elements(). `index`: a multiple of kGroup.
template <typename T, typename Simt>
RINGPRESS_DEVICE void store_group(const Simt& simt, void* array, std::size_t index, unsigned valid,
                                  const float (&x)[kGroup], unsigned mask = 0xFFu) {
  if (valid == kGroup && mask == 0xFFu && is_aligned(array, sizeof(Quad))) {
    store_quads<T>(simt, array, index, x);
  } else {
    store_elements<T>(simt, array, index, valid, x, mask);
  }
}

/// One number of a type such as std::uint16_t, at any address.
template <typename Word, typename Simt>
RINGPRESS_DEVICE Word load_any(const Simt& simt, const std::byte* from) {
  if (is_aligned(from, sizeof(Word))) return simt.template load<Word>(from);
  return load_element<Word>(from, 0);
}
template <typename Word, typename Simt>
RINGPRESS_DEVICE void store_any(const Simt& simt, std::byte* to, Word word) {
  if (is_aligned(to, sizeof(Word))) {
    simt.store(to, word);
  } else {
    store_element<Word>(to, 0, word);
  }
}

/// A word at an address that is aligned to two bytes.
template <typename Simt>
RINGPRESS_DEVICE std::uint32_t load_word(const Simt& simt, const std::byte* from) {
  if (is_aligned(from, 4)) return simt.template load<std::uint32_t>(from);
  const std::uint32_t low = simt.template load<std::uint16_t>(from);
  return low | static_cast<std::uint32_t>(simt.template load<std::uint16_t>(from + 2)) << 16;
}
template <typename Simt>
RINGPRESS_DEVICE void store_word(const Simt& simt, std::byte* to, std::uint32_t word) {
  if (is_aligned(to, 4)) {
    simt.store(to, word);
  } else {
    simt.store(to, static_cast<std::uint16_t>(word));
    simt.store(to + 2, static_cast<std::uint16_t>(word >> 16));
  }
}

/// The most bytes, 8 at most, that may be moved at once where `size` bytes start at `address`.
RINGPRESS_DEVICE unsigned unit_of_access(const void* address, unsigned size) {
  const auto bits = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address)) | size;
  return (bits & 7u) == 0 ? 8 : (bits & 3u) == 0 ? 4 : (bits & 1u) == 0 ? 2 : 1;
}

template <typename Word, typename Simt>
RINGPRESS_DEVICE std::uint64_t load_words(const Simt& simt, const std::byte* from, unsigned size) {
  std::uint64_t bytes = 0;
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < 8; i += sizeof(Word)) {
    if (i >= size) continue;
    bytes |= static_cast<std::uint64_t>(simt.template load<Word>(from + i)) << (8 * i);
  }
  return bytes;
}
template <typename Word, typename Simt>
RINGPRESS_DEVICE void store_words(const Simt& simt, std::byte* to, unsigned size,
                                  std::uint64_t bytes) {
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < 8; i += sizeof(Word)) {
    if (i < size) simt.store(to + i, static_cast<Word>(bytes >> (8 * i)));
  }
}

/// `size` <= 8 bytes at any address, the first one lowest.
template <typename Simt>
RINGPRESS_DEVICE std::uint64_t load_bytes(const Simt& simt, const std::byte* from, unsigned size) {
  switch (unit_of_access(from, size)) {
    case 8:
      return load_words<std::uint64_t>(simt, from, size);
    case 4:
      return load_words<std::uint32_t>(simt, from, size);
    case 2:
      return load_words<std::uint16_t>(simt, from, size);
    default:
      return load_words<std::uint8_t>(simt, from, size);
  }
}
template <typename Simt>
RINGPRESS_DEVICE void store_bytes(const Simt& simt, std::byte* to, unsigned size,
                                  std::uint64_t bytes) {
  switch (unit_of_access(to, size)) {
    case 8:
      return store_words<std::uint64_t>(simt, to, size, bytes);
    case 4:
      return store_words<std::uint32_t>(simt, to, size, bytes);
    case 2:
      return store_words<std::uint16_t>(simt, to, size, bytes);
    default:
      return store_words<std::uint8_t>(simt, to, size, bytes);
  }
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_SIMT_MEMORY_CUH_
