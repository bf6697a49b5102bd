// The scratch memory of one tile, small enough for the first-level cache.
#ifndef COMPRESS_KERNELS_UNIFORM_TILE_H_
#define COMPRESS_KERNELS_UNIFORM_TILE_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/bit_pack.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::uniform {

/// The smallest block. Kernels look scales up by group, so that they need not know the block size.
inline constexpr std::size_t kGroupElements = 32;
inline constexpr std::size_t kGroups = kTileElements / kGroupElements;
/// Array entries past the end that stores of whole vectors may overwrite.
inline constexpr std::size_t kSlack = 64;

/// One entry per block of the tile.
struct BlockScales {
  alignas(64) std::uint32_t magnitude[kGroups + kSlack];  // Bits of the largest |x|.
  alignas(64) float minimum[kGroups + kSlack];            // minmax only.
  alignas(64) float maximum[kGroups + kSlack];            // minmax only.
  alignas(64) float mean[kGroups + kSlack];               // One bit, nearest, only.
  alignas(64) float inverse[kGroups + kSlack];
  alignas(64) float unit[kGroups + kSlack];
  alignas(64) float low[kGroups + kSlack];
  alignas(64) std::uint16_t stored_unit[kGroups + kSlack];  // bfloat16
};

/// One entry per group of 32 elements.
struct GroupScales {
  alignas(64) float inverse[kGroups + kSlack];
  alignas(64) float unit[kGroups + kSlack];
  alignas(64) float low[kGroups + kSlack];
};

struct Tile {
  alignas(64) float x[kTileElements];
  alignas(64) float decoded[kTileElements];
  alignas(64) std::uint16_t random[kTileElements + kSlack];
  alignas(64) std::uint8_t codes[kTileElements + kSlack];
  alignas(64) std::uint8_t low_codes[kTileElements / 4 + kSlack];  // The plane of lowest bits.
  BlockScales blocks{};
  GroupScales groups{};

  core::Planes<std::uint8_t> planes() { return {codes, low_codes}; }
};

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_TILE_H_
