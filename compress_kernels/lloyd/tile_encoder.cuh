// From the rotated values of a tile whose rows may be of several blocks to codes, on the wire,
// levels and scales.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_ENCODER_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_ENCODER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/tile_dither.cuh"
#include "compress_kernels/lloyd/tile_levels.cuh"
#include "compress_kernels/lloyd/tile_power.cuh"
#include "compress_kernels/lloyd/tile_quantiser.cuh"
#include "compress_kernels/lloyd/tile_rotation.cuh"

namespace ringpress::compress_kernels::lloyd {

template <typename Simt, typename Known>
class TileEncoder {
 public:
  RINGPRESS_DEVICE TileEncoder(const Simt& simt, const LloydParameters& codec, TileLevels levels,
                               const CodePlanes& planes)
      : unbiased_(codec.unbiased),
        levels_(levels),
        dither_(simt, codec, levels, static_cast<float*>(simt.warp_memory())),
        quantiser_(simt, codec, levels, planes) {}

  /// Writes the codes and makes levels of y, which is rotated. `stored`: the scales, as they are on
  /// the wire.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode(const TileRotation<Simt>& rotation, const TilePower<Simt>& power,
                               const TileOf& tile, const Power (&powers)[core::kRows],
                               const core::Rows& x, const core::EncodeOutput& output, core::Rows& y,
                               std::uint16_t (&stored)[core::kRows]) const {
    if (quantiser_.dithers(tile)) dither_.encode(tile, x, output.random, stored);
    float products[core::kRows];
    quantiser_.quantise(tile, powers, output.wire, y, products);
    find_scales(rotation, power, tile, powers, products, y, stored);
  }

 private:
  /// The stored scales, but for those of dithered rows. Levels of blocks that have none become
  /// those of code 0.
  template <typename TileOf>
  RINGPRESS_DEVICE void find_scales(const TileRotation<Simt>& rotation,
                                    const TilePower<Simt>& power, const TileOf& tile,
                                    const Power (&powers)[core::kRows],
                                    const float (&products)[core::kRows], core::Rows& levels,
                                    std::uint16_t (&stored)[core::kRows]) const {
    // Not looked at with unbiased rounding, but a branch here would cost registers.
    float squares[core::kRows];
    power.sum_squares(levels, squares);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (quantiser_.is_dithered(tile, row)) continue;
      if (powers[row].sum > 0) {
        const float scale =
            unbiased_ ? powers[row].sum / products[row] : products[row] / squares[row];
        stored[row] = stored_scale(scale, powers[row], rotation.gain(tile, row));
        continue;
      }
      stored[row] = powers[row].sum == 0 ? 0 : core::kBfloat16Nan;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) levels[row][k] = levels_.value_of(0);
    }
  }

  const bool unbiased_;
  const TileLevels levels_;
  const TileDither<Simt> dither_;
  const TileQuantiser<Simt, Known> quantiser_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_ENCODER_CUH_
