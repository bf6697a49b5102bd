// How two summaries of a chunk become one. Any order gives the same bytes.
#ifndef COMPRESS_KERNELS_QSGD_MERGE_H_
#define COMPRESS_KERNELS_QSGD_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::qsgd {

/// bfloat16 magnitudes are in the order of their bits.
RINGPRESS_HOST_DEVICE inline std::uint16_t larger_norm(std::uint16_t a, std::uint16_t b) {
  return a > b ? a : b;
}

/// The larger of each pair of norms, four at a time.
RINGPRESS_HOST_DEVICE inline std::uint64_t larger_norms(std::uint64_t a, std::uint64_t b) {
  std::uint64_t larger = 0;
  for (unsigned shift = 0; shift < 64; shift += 16) {
    const std::uint16_t norm =
        larger_norm(static_cast<std::uint16_t>(a >> shift), static_cast<std::uint16_t>(b >> shift));
    larger |= static_cast<std::uint64_t>(norm) << shift;
  }
  return larger;
}

/// Sets each number of `into` to the larger.
inline void merge_norms(const std::byte* from, std::size_t bytes, std::byte* into) {
  for (std::size_t i = 0; i < bytes / sizeof(std::uint16_t); ++i) {
    const auto a = core::load_element<std::uint16_t>(from, i);
    const auto b = core::load_element<std::uint16_t>(into, i);
    core::store_element(into, i, larger_norm(a, b));
  }
}

/// The smaller of each pair of packed numbers of 1 or 2 bits.
RINGPRESS_HOST_DEVICE inline std::uint64_t smaller_levels(std::uint64_t a, std::uint64_t b,
                                                          int bits) {
  if (bits == 1) return a & b;
  constexpr std::uint64_t kLow = 0x5555555555555555u;
  const std::uint64_t high_less = (~a & b) >> 1;  // At the low bit: a's high bit is smaller.
  const std::uint64_t high_same = ~(a ^ b) >> 1;  // At the low bit: the high bits are equal.
  const std::uint64_t is_less = (high_less | (high_same & ~a & b)) & kLow;
  const std::uint64_t mask = is_less | is_less << 1;
  return (a & mask) | (b & ~mask);
}

inline void merge_levels(const std::byte* from, std::size_t bytes, int bits, std::byte* into) {
  std::size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const auto a = core::load_element<std::uint64_t>(from + i, 0);
    const auto b = core::load_element<std::uint64_t>(into + i, 0);
    core::store_element(into + i, 0, smaller_levels(a, b, bits));
  }
  for (; i < bytes; ++i) {
    into[i] = static_cast<std::byte>(smaller_levels(static_cast<std::uint8_t>(from[i]),
                                                    static_cast<std::uint8_t>(into[i]), bits));
  }
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_MERGE_H_
