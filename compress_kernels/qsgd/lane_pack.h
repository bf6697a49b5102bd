// Packed numbers of 1 to 31 bits. A whole tile is packed in 32 lanes, so that vectors of any width
// and a CUDA warp need only shifts and ors:
//
//   whole tile   number i lies in lane i mod 32; the 32 numbers of a lane are contiguous bits,
//                least significant first, of `width` words of 32 bits; word k of all lanes,
//                little-endian, precedes word k + 1 of any
//   shorter      plain: contiguous bits in element order, least significant first; bits after the
//                last are zero
#ifndef COMPRESS_KERNELS_QSGD_LANE_PACK_H_
#define COMPRESS_KERNELS_QSGD_LANE_PACK_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::qsgd {

inline constexpr std::size_t kPackLanes = 32;
inline constexpr std::size_t kRows = kTileElements / kPackLanes;

RINGPRESS_HOST_DEVICE inline std::size_t tile_bytes(std::size_t count, int width) {
  return (count * static_cast<std::size_t>(width) + 7) / 8;
}

/// Bytes of `count` numbers; also where the tile that starts at number `count` begins.
RINGPRESS_HOST_DEVICE inline std::size_t packed_bytes(std::size_t count, int width) {
  return count / kTileElements * tile_bytes(kTileElements, width) +
         tile_bytes(count % kTileElements, width);
}

/// The sum of two packed numbers, up to `largest`.
RINGPRESS_HOST_DEVICE inline std::uint32_t limited_sum(std::uint32_t a, std::uint32_t b,
                                                       std::uint32_t largest) {
  return a + b < largest ? a + b : largest;
}

/// Packs fewer numbers than a tile has.
inline void pack_plain(const std::uint32_t* numbers, std::size_t count, int width,
                       std::byte* bytes) {
  std::uint64_t window = 0;
  int filled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    window |= std::uint64_t{numbers[i]} << filled;
    for (filled += width; filled >= 8; filled -= 8, window >>= 8) {
      *bytes++ = static_cast<std::byte>(window);
    }
  }
  if (filled > 0) *bytes = static_cast<std::byte>(window);
}

/// Adds what pack_plain() packed to `numbers`, up to `largest`.
inline void unpack_add_plain(const std::byte* bytes, std::size_t count, int width,
                             std::uint32_t largest, std::uint32_t* numbers) {
  std::uint64_t window = 0;
  int filled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; filled < width; filled += 8)
      window |= std::uint64_t{static_cast<std::uint8_t>(*bytes++)} << filled;
    const std::uint32_t number = static_cast<std::uint32_t>(window) & ((1u << width) - 1u);
    numbers[i] = limited_sum(numbers[i], number, largest);
    window >>= width;
    filled -= width;
  }
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_LANE_PACK_H_
