// The rotation of rotation.h and block.h for a warp that holds a tile: signs, the Hadamard
// transform and, of the last tile of a chunk, weights.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_ROTATION_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_ROTATION_CUH_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/rotation.h"
#include "compress_kernels/lloyd/tile_hadamard.cuh"
#include "compress_kernels/lloyd/tile_seeds.cuh"

namespace ringpress::compress_kernels::lloyd {

template <typename Simt>
class TileRotation {
 public:
  /// `memory`: of the warp, room for a tile.
  RINGPRESS_DEVICE TileRotation(const Simt& simt, const LloydParameters& parameters, float* memory)
      : simt_(simt), blocks_(parameters), memory_(memory), hadamard_(simt, blocks_, memory) {}

  /// y = w H(d y), as rotate().
  template <typename TileOf>
  RINGPRESS_DEVICE void rotate(const TileOf& tile, const RowSeeds& seeds, core::Rows& y) const {
    if (!blocks_.rotate) return;
    for (int round = 0; round < blocks_.rounds(); ++round) {
      apply_signs(tile, simt_.opaque(signs(tile, seeds, round)), y);
      hadamard_.transform(tile, y);
    }
    if (is_whole(tile)) return;
    put_weights(tile);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      y[i / core::kGroup][i % core::kGroup] *= memory_[slot_of(tile, i)];
    }
  }

  /// x = d (unit w) H(y), as rotate_back().
  template <typename TileOf>
  RINGPRESS_DEVICE void rotate_back(const TileOf& tile, const RowSeeds& seeds,
                                    const float (&units)[core::kRows], core::Rows& y) const {
    if (blocks_.rotate) {
      for (int round = blocks_.rounds() - 1; round >= 0; --round) {
        hadamard_.transform(tile, y);
        if (round > 0) apply_signs(tile, signs(tile, seeds, round), y);
      }
    }
    if (TileOf::kIsWhole && is_harmless(units[0])) {
      multiply_and_sign(units[0], signs(tile, seeds, 0), y);
      return;
    }
    const bool is_weighted = blocks_.rotate && !is_whole(tile);
    if (is_weighted) put_weights(tile);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      float unit = units[i / core::kGroup];
      if (is_weighted) unit *= memory_[slot_of(tile, i)];
      float& value = y[i / core::kGroup][i % core::kGroup];
      value = saturate(value * unit, DType::kFloat32);
    }
    if (blocks_.rotate) apply_signs(tile, signs(tile, seeds, 0), y);
  }

  /// True of the unit of a whole tile that is one block, rotated once with 4 bits, if neither a sum
  /// of levels times this unit, which is at most 1024 * 2.74, nor that as a bfloat16 overflows.
  RINGPRESS_DEVICE static bool is_harmless(float unit) {
    return core::magnitude_bits(unit) < core::bits_of(0x1p115f) && unit != 0;
  }

  /// What the rotation of the block of a row multiplies squared lengths with.
  template <typename TileOf>
  RINGPRESS_DEVICE float gain(const TileOf& tile, unsigned row) const {
    const std::size_t count = core::block_count(tile, row, blocks_.size);
    return rotation_gain(blocks_.include(count) ? blocks_.rounds() : 0, count);
  }

 private:
  /// Bit 8 row + k is set where d is minus. Most tiles have those of the one before.
  template <typename TileOf>
  RINGPRESS_DEVICE std::uint32_t signs(const TileOf& tile, const RowSeeds& seeds, int round) const {
    if (blocks_.unbiased || !is_whole(tile)) return draw_signs(tile, seeds, round);
    if (!has_signs_ || signs_seed_ != seeds[0]) {
      signs_ = draw_signs(tile, seeds, round);
      signs_seed_ = seeds[0];
      has_signs_ = true;
    }
    return signs_;
  }
  template <typename TileOf>
  RINGPRESS_DEVICE std::uint32_t draw_signs(const TileOf& tile, const RowSeeds& seeds,
                                            int round) const {
    const std::uint64_t base = blocks_.unbiased ? 0 : kSharedSeed;
    std::uint32_t all = 0;
    RINGPRESS_ROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const unsigned byte = (tile.place(row) & (blocks_.size - 1)) / core::kGroup;
      const philox4x32_ctr_t words = sign_words(base | seed_of(seeds, row), round, byte / 16);
      const std::uint32_t word = core::word_of(words, byte / 4 % 4);
      const std::uint32_t of_row = word >> (8 * (byte % 4)) & 0xFFu;
      const bool rotated =
          is_whole(tile) ||
          (tile.valid(row) != 0 && blocks_.include(blocks_.count_at(tile, tile.place(row))));
      all |= rotated ? of_row << (8 * row) : 0;
    }
    return all;
  }

  template <typename TileOf>
  RINGPRESS_DEVICE static void apply_signs(const TileOf&, std::uint32_t signs, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      float& value = y[i / core::kGroup][i % core::kGroup];
      const std::uint32_t sign = signs << (kTileValues - 1 - i) & core::kSignBit;
      value = core::float_of(core::bits_of(value) ^ sign);
    }
  }

  /// A product with a negated factor is the negated product.
  RINGPRESS_DEVICE static void multiply_and_sign(float unit, std::uint32_t signs, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      const std::uint32_t sign = signs << (kTileValues - 1 - i) & core::kSignBit;
      y[i / core::kGroup][i % core::kGroup] *= core::float_of(core::bits_of(unit) ^ sign);
    }
  }

  /// Puts the weights of all places in the warp's memory.
  template <typename TileOf>
  RINGPRESS_DEVICE void put_weights(const TileOf& tile) const {
    simt_.sync_warp();
    RINGPRESS_ROLL
    for (unsigned place = tile.lane; place < kTileElements; place += core::kLanes) {
      memory_[core::memory_slot(place)] = weight(tile, place);
    }
    simt_.sync_warp();
  }
  /// weight_of() the part that a place of the tile lies in.
  template <typename TileOf>
  RINGPRESS_DEVICE float weight(const TileOf& tile, unsigned place) const {
    if (place >= tile.count) return 1;
    const unsigned count = blocks_.count_at(tile, place);
    if (!blocks_.include(count)) return 1;
    return weight_of(place & (blocks_.size - 1), count);
  }

  const Simt& simt_;
  const RotatedBlocks blocks_;
  float* const memory_;
  const TileHadamard<Simt> hadamard_;
  mutable bool has_signs_ = false;
  mutable std::uint32_t signs_seed_ = 0;
  mutable std::uint32_t signs_ = 0;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_ROTATION_CUH_
