// The seeds of the rotations of a tile's blocks, as they are on the wire.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_SEEDS_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_SEEDS_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/lloyd.h"

namespace ringpress::compress_kernels::lloyd {

/// Of the blocks that the rows of a lane belong to, as they are on the wire.
using RowSeeds = std::uint32_t[core::kRows];

/// seeds[row] where the row is not known when it is compiled: they stay in registers.
RINGPRESS_DEVICE std::uint32_t seed_of(const RowSeeds& seeds, unsigned row) {
  return row < 2 ? (row == 0 ? seeds[0] : seeds[1]) : (row == 2 ? seeds[2] : seeds[3]);
}
RINGPRESS_DEVICE void set_seed(RowSeeds& seeds, unsigned row, std::uint32_t seed) {
  RINGPRESS_UNROLL
  for (unsigned i = 0; i < core::kRows; ++i) seeds[i] = i == row ? seed : seeds[i];
}

template <typename Simt>
class TileSeeds {
 public:
  /// `offset`: where they are on the wire.
  RINGPRESS_DEVICE TileSeeds(const Simt& simt, const LloydParameters& parameters,
                             std::size_t offset)
      : simt_(simt),
        block_(static_cast<unsigned>(parameters.block)),
        block_shift_(core::log2_of(parameters.block)),
        rotates_(parameters.rotates),
        unbiased_(parameters.unbiased),
        offset_(offset) {}

  /// Those of Chunk::draw_seed(), on the wire too.
  template <typename TileOf>
  RINGPRESS_DEVICE void draw(const TileOf& tile, const core::EncodeOutput& output,
                             RowSeeds& seeds) const {
    const std::uint32_t shared = shared_seed(output.random);
    if constexpr (TileOf::kIsWhole) {
      RINGPRESS_UNROLL
      for (std::uint32_t& seed : seeds) seed = shared;
      if (tile.first == 0 && tile.lane == 0) store(output.wire, 0, shared);
    } else {
      RINGPRESS_ROLL
      for (unsigned row = 0; row < core::kRows; ++row) {
        const std::size_t block = tile.index(row) >> block_shift_;
        const std::uint32_t seed = unbiased_ ? own_seed(output.random, block) : shared;
        set_seed(seeds, row, seed);
        if (!rotates_ || !core::leads_block(tile, row, block_)) continue;
        if (unbiased_ || block == 0) store(output.wire, block, seed);
      }
    }
  }

  /// Of a block.
  RINGPRESS_DEVICE std::uint32_t load(const std::byte* wire, std::size_t block) const {
    if (!rotates_) return 0;
    const std::size_t index = unbiased_ ? block : 0;
    return core::load_any<std::uint32_t>(simt_, wire + offset_ + index * 4);
  }
  /// Of all blocks, with the usual parameters.
  RINGPRESS_DEVICE std::uint32_t load_shared(const std::byte* wire) const {
    return core::load_word(simt_, wire + offset_);
  }

 private:
  RINGPRESS_DEVICE std::uint32_t own_seed(const RandomKey& random, std::size_t block) const {
    const std::size_t first = block << block_shift_;
    return core::random_half(random, first) | core::random_half(random, first + 1) << 16;
  }
  RINGPRESS_DEVICE void store(std::byte* wire, std::size_t block, std::uint32_t seed) const {
    core::store_any(simt_, wire + offset_ + block * 4, seed);
  }

  const Simt& simt_;
  const unsigned block_;
  const unsigned block_shift_;
  const bool rotates_;
  const bool unbiased_;
  const std::size_t offset_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_SEEDS_CUH_
