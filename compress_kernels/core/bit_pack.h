// Codes of 1 to 8 bits, one after another, least significant bit first.
#ifndef COMPRESS_KERNELS_CORE_BIT_PACK_H_
#define COMPRESS_KERNELS_CORE_BIT_PACK_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

RINGPRESS_HOST_DEVICE inline std::size_t packed_bytes(std::size_t count, int bits) {
  return (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Code number `index`. Reads only bytes that hold a part of it.
RINGPRESS_HOST_DEVICE inline std::uint32_t read_code(const std::uint8_t* bytes, std::size_t index,
                                                     int bits) {
  const std::size_t first_bit = index * static_cast<std::size_t>(bits);
  const int shift = static_cast<int>(first_bit % 8);
  std::uint32_t window = bytes[first_bit / 8];
  if (shift + bits > 8) window |= static_cast<std::uint32_t>(bytes[first_bit / 8 + 1]) << 8;
  return (window >> shift) & ((1u << bits) - 1u);
}

/// Sets code number `index` in bytes that are still zero there.
RINGPRESS_HOST_DEVICE inline void write_code(std::uint8_t* bytes, std::size_t index, int bits,
                                             std::uint32_t code) {
  const std::size_t first_bit = index * static_cast<std::size_t>(bits);
  const int shift = static_cast<int>(first_bit % 8);
  const std::uint32_t window = code << shift;
  bytes[first_bit / 8] = static_cast<std::uint8_t>(bytes[first_bit / 8] | window);
  if (shift + bits > 8) {
    bytes[first_bit / 8 + 1] = static_cast<std::uint8_t>(bytes[first_bit / 8 + 1] | (window >> 8));
  }
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_BIT_PACK_H_
