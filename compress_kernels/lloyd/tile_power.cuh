// rotate_and_measure() of block.h for a warp that holds a tile.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_POWER_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_POWER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/block_sums.cuh"
#include "compress_kernels/lloyd/tile_rotation.cuh"

namespace ringpress::compress_kernels::lloyd {

template <typename Simt>
class TilePower {
 public:
  RINGPRESS_DEVICE TilePower(const Simt& simt, unsigned block) : simt_(simt), block_(block) {}

  /// As the function of block.h. NaN power: not all values of the block are finite; 0: all are 0.
  template <typename TileOf>
  RINGPRESS_DEVICE void rotate_and_measure(const TileRotation<Simt>& rotation, const TileOf& tile,
                                           const RowSeeds& seeds, const core::Rows& x,
                                           core::Rows& y, Power (&powers)[core::kRows]) const {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < core::kRows * core::kGroup; ++i) {
      y[i / core::kGroup][i % core::kGroup] = x[i / core::kGroup][i % core::kGroup];
    }
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) powers[row] = {1, 1};
    measure(rotation, tile, seeds, y, powers);
    bool is_odd = false;
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      is_odd |= tile.valid(row) != 0 && !is_usual(powers[row].sum);
    }
    if (!simt_.any(is_odd)) return;
    find_factors(x, powers);
    multiply(x, powers, y);
    measure(rotation, tile, seeds, y, powers);
  }

  /// Sums of the squares of values, over blocks.
  RINGPRESS_DEVICE void sum_squares(const core::Rows& y, float (&sums)[core::kRows]) const {
    BlockSums squares(block_);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float terms[core::kGroup];
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) terms[k] = y[row][k] * y[row][k];
      squares.add(row, terms);
    }
    squares.finish(simt_, sums);
  }

 private:
  /// Rotates y. Sums that are 0 or NaN stay so.
  template <typename TileOf>
  RINGPRESS_DEVICE void measure(const TileRotation<Simt>& rotation, const TileOf& tile,
                                const RowSeeds& seeds, core::Rows& y,
                                Power (&powers)[core::kRows]) const {
    rotation.rotate(tile, seeds, y);
    float sums[core::kRows];
    sum_squares(y, sums);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (powers[row].sum > 0) powers[row].sum = sums[row];
    }
  }

  RINGPRESS_DEVICE static bool is_usual(float power) {
    return power >= kSmallestPower && power <= kLargestPower;
  }

  RINGPRESS_DEVICE static void multiply(const core::Rows& x, const Power (&powers)[core::kRows],
                                        core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < core::kRows * core::kGroup; ++i) {
      const unsigned row = i / core::kGroup;
      y[row][i % core::kGroup] = x[row][i % core::kGroup] * powers[row].factor;
    }
  }

  /// What blocks with unusual sums of squares are multiplied with; leaves sums that are 0 or NaN as
  /// the sums of the others will not be.
  RINGPRESS_DEVICE void find_factors(const core::Rows& x, Power (&powers)[core::kRows]) const {
    std::uint32_t largest[core::kRows];
    core::find_largest(simt_, block_, x, largest);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (is_usual(powers[row].sum)) continue;
      if (largest[row] >= core::kInfinityBits) {
        powers[row].sum = core::float_of(core::kCanonicalNanBits);
      } else if (largest[row] < core::kExtentFloorBits) {
        powers[row].sum = 0;
      } else {
        powers[row] = {normalising_factor(largest[row]), 1};
      }
    }
  }

  const Simt& simt_;
  const unsigned block_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_POWER_CUH_
