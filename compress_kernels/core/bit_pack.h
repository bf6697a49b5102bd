// Codes of 1 to 8 bits, one after another, least significant bit first. Wider codes are cut in two:
// first the highest 8 bits of every code, as codes of 8 bits, then the lowest ones, as codes of
// their own. Each of the two is called a plane.
#ifndef COMPRESS_KERNELS_CORE_BIT_PACK_H_
#define COMPRESS_KERNELS_CORE_BIT_PACK_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

inline constexpr int kHighPlaneBits = 8;

/// Bits of a code in the plane of lowest bits; 0: there is no such plane.
RINGPRESS_HOST_DEVICE constexpr int low_plane_bits(int bits) {
  return bits > kHighPlaneBits ? bits - kHighPlaneBits : 0;
}
/// Bits of a code in the first plane.
RINGPRESS_HOST_DEVICE constexpr int high_plane_bits(int bits) {
  return bits - low_plane_bits(bits);
}

/// Bytes of one plane of `count` codes.
RINGPRESS_HOST_DEVICE inline std::size_t plane_bytes(std::size_t count, int plane_bits) {
  return (count * static_cast<std::size_t>(plane_bits) + 7) / 8;
}

/// Bytes of `count` codes of any width.
RINGPRESS_HOST_DEVICE inline std::size_t packed_bytes(std::size_t count, int bits) {
  return plane_bytes(count, high_plane_bits(bits)) + plane_bytes(count, low_plane_bits(bits));
}

/// Code number `index` of one plane. Reads only bytes that hold a part of it.
RINGPRESS_HOST_DEVICE inline std::uint32_t read_code(const std::uint8_t* bytes, std::size_t index,
                                                     int bits) {
  const std::size_t first_bit = index * static_cast<std::size_t>(bits);
  const int shift = static_cast<int>(first_bit % 8);
  std::uint32_t window = bytes[first_bit / 8];
  if (shift + bits > 8) window |= static_cast<std::uint32_t>(bytes[first_bit / 8 + 1]) << 8;
  return (window >> shift) & ((1u << bits) - 1u);
}

/// Sets code number `index` of one plane in bytes that are still zero there.
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

/// Where the planes of some codes begin. `low` is not looked at where there is no such plane.
template <typename Byte>
struct Planes {
  Byte* high = nullptr;
  Byte* low = nullptr;
};

/// As read_code(), for codes of any width.
RINGPRESS_HOST_DEVICE inline std::uint32_t read_code(Planes<const std::uint8_t> planes,
                                                     std::size_t index, int bits) {
  const int low_bits = low_plane_bits(bits);
  const std::uint32_t high = read_code(planes.high, index, bits - low_bits);
  return low_bits == 0 ? high : high << low_bits | read_code(planes.low, index, low_bits);
}

/// As write_code(), for codes of any width.
RINGPRESS_HOST_DEVICE inline void write_code(Planes<std::uint8_t> planes, std::size_t index,
                                             int bits, std::uint32_t code) {
  const int low_bits = low_plane_bits(bits);
  write_code(planes.high, index, bits - low_bits, code >> low_bits);
  if (low_bits != 0) write_code(planes.low, index, low_bits, code & ((1u << low_bits) - 1u));
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_BIT_PACK_H_
