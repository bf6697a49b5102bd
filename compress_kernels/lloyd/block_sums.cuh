// sum_block() of block.h for a warp that holds a tile: within lanes, then between them.
#ifndef COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_CUH_
#define COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_CUH_

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"

namespace ringpress::compress_kernels::lloyd {

static_assert(kBlockLanes == core::kRowElements);

/// Sums over the blocks of a tile.
class BlockSums {
 public:
  /// `block`: a power of two from 64 to 1024.
  RINGPRESS_DEVICE explicit BlockSums(unsigned block)
      : block_(block), rows_(block < core::kRowElements ? 1 : block / core::kRowElements) {}

  /// What the lane's group of a row adds, +0 for what does not exist. Rows in order.
  RINGPRESS_DEVICE void add(unsigned row, const float (&terms)[core::kGroup]) {
    const bool begins = (row & (rows_ - 1)) == 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) sums_[k] = begins ? terms[k] : sums_[k] + terms[k];
    groups_[row] = (sums_[0] + sums_[1] + (sums_[2] + sums_[3])) +
                   (sums_[4] + sums_[5] + (sums_[6] + sums_[7]));
  }

  /// Every row of every lane gets the sum over its block. All lanes take part.
  template <typename Simt>
  RINGPRESS_DEVICE void finish(const Simt& simt, float (&sums)[core::kRows]) const {
    if (rows_ == core::kRows) {
      float sum[1] = {groups_[core::kRows - 1]};
      add_lanes(simt, sum);
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < core::kRows; ++row) sums[row] = sum[0];
      return;
    }
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) sums[row] = groups_[row];
    add_lanes(simt, sums);
    if (rows_ == 1) return;
    sums[0] = sums[1];
    sums[2] = sums[3];
  }

 private:
  static_assert(core::kRows == 4);

  template <typename Simt, unsigned kCount>
  RINGPRESS_DEVICE void add_lanes(const Simt& simt, float (&sums)[kCount]) const {
    RINGPRESS_UNROLL
    for (unsigned distance = core::kLanes / 2; distance > 0; distance /= 2) {
      if (distance * core::kGroup >= block_) continue;
      core::add_lanes(simt, distance, sums);
    }
  }

  const unsigned block_;
  const unsigned rows_;  // Of a block.
  float sums_[core::kGroup];
  float groups_[core::kRows];  // Of all rows of a block up to this one.
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_BLOCK_SUMS_CUH_
