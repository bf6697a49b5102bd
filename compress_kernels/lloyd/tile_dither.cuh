// dither_block() in a kernel: the partial block at the end of a chunk with unbiased rounding.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_DITHER_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_DITHER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/tile_levels.cuh"

namespace ringpress::compress_kernels::lloyd {

/// True for a row whose block is partial.
template <typename TileOf>
RINGPRESS_DEVICE bool takes_dither(const TileOf& tile, unsigned row, std::size_t block) {
  return tile.valid(row) != 0 && core::block_count(tile, row, block) != block;
}

template <typename Simt>
class TileDither {
 public:
  /// `memory`: of the warp, room for a tile.
  RINGPRESS_DEVICE TileDither(const Simt& simt, const LloydParameters& codec, TileLevels levels,
                              float* memory)
      : simt_(simt),
        bits_(codec.bits),
        block_(static_cast<unsigned>(codec.block)),
        levels_(levels),
        memory_(memory) {}

  /// The stored scales of rows that it takes; their codes are put in the warp's
  /// memory, in the places of the values.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x, const RandomKey& random,
                               std::uint16_t (&stored)[core::kRows]) const {
    std::uint32_t largest[core::kRows];
    simt_.sync_warp();
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) core::put_terms(simt_, tile, row, x[row]);
    core::find_largest(simt_, block_, x, largest);
    float unit = 0;  // There is one partial block.
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (!takes_dither(tile, row, block_)) continue;
      stored[row] = scale_of(largest[row]);
      unit = core::widen(core::Bfloat16{stored[row]});
    }
    put_codes(tile, unit, random);
  }

 private:
  RINGPRESS_DEVICE std::uint16_t scale_of(std::uint32_t largest) const {
    if (largest >= core::kInfinityBits) return core::kBfloat16Nan;
    if (largest < core::kExtentFloorBits) return 0;
    const float top = levels_.magnitude_of(levels_.magnitudes() - 1);
    return core::round_up_to_bfloat16(core::bits_of(core::float_of(largest) / top));
  }

  /// Turns the values of this lane into codes. Rolled: it is the end of a chunk.
  template <typename TileOf>
  RINGPRESS_DEVICE void put_codes(const TileOf& tile, float unit, const RandomKey& random) const {
    const bool has_levels = core::is_finite(unit) && unit != 0;
    RINGPRESS_ROLL
    for (unsigned i = 0; i < core::kRows * core::kGroup; ++i) {
      const unsigned place = tile.place(i / core::kGroup) + i % core::kGroup;
      float& value = memory_[core::memory_slot(place)];
      std::uint32_t code = 0;
      if (has_levels && place < tile.count) {
        code = code_of_value(value, unit,
                             core::unit_interval(core::random_half(random, tile.first + place)));
      }
      value = core::float_of(code);
    }
  }

  /// One of the two levels next to a value, by chance.
  RINGPRESS_DEVICE std::uint32_t code_of_value(float x, float unit, float u) const {
    const std::uint32_t last = levels_.magnitudes() - 1;
    const float magnitude = core::float_of(core::magnitude_bits(x)) / unit;
    std::uint32_t upper = 0;
    while (upper < last && levels_.magnitude_of(upper) < magnitude) ++upper;
    const float high = levels_.magnitude_of(upper);
    const float low = upper == 0 ? -high : levels_.magnitude_of(upper - 1);
    const bool is_high = (magnitude - low) > u * (high - low);
    const bool crosses_zero = !is_high && upper == 0;
    const bool is_minus = (core::bits_of(x) >> 31 != 0) != crosses_zero;
    return code_of(bits_, is_high || upper == 0 ? upper : upper - 1, is_minus);
  }

  const Simt& simt_;
  const int bits_;
  const unsigned block_;
  const TileLevels levels_;
  float* const memory_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_DITHER_CUH_
