// The rotation of rotation.h and block.h for a warp that holds a tile: butterflies within a lane,
// and between lanes. The last tile of a chunk, whose blocks may be cut into parts of any size, goes
// through the warp's memory.
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
class TileRotation {
 public:
  /// `memory`: of the warp, room for a tile.
  RINGPRESS_DEVICE TileRotation(const Simt& simt, const LloydParameters& parameters, float* memory)
      : simt_(simt),
        block_(static_cast<unsigned>(parameters.block)),
        rotates_(parameters.rotates),
        unbiased_(parameters.unbiased),
        memory_(memory) {}

  /// y = w H(d y), as rotate().
  template <typename TileOf>
  RINGPRESS_DEVICE void rotate(const TileOf& tile, const RowSeeds& seeds, core::Rows& y) const {
    if (!rotates_) return;
    for (int round = 0; round < rounds(); ++round) {
      apply_signs(tile, simt_.opaque(signs(tile, seeds, round)), y);
      transform(tile, y);
    }
    if (is_whole(tile)) return;
    put_weights(tile);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      y[i / core::kGroup][i % core::kGroup] *= memory_[slot(tile, i)];
    }
  }

  /// x = d (unit w) H(y), as rotate_back().
  template <typename TileOf>
  RINGPRESS_DEVICE void rotate_back(const TileOf& tile, const RowSeeds& seeds,
                                    const float (&units)[core::kRows], core::Rows& y) const {
    if (rotates_) {
      for (int round = rounds() - 1; round >= 0; --round) {
        transform(tile, y);
        if (round > 0) apply_signs(tile, signs(tile, seeds, round), y);
      }
    }
    if (TileOf::kIsWhole && is_harmless(units[0])) {
      multiply_and_sign(units[0], signs(tile, seeds, 0), y);
      return;
    }
    const bool is_weighted = rotates_ && !is_whole(tile);
    if (is_weighted) put_weights(tile);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      float unit = units[i / core::kGroup];
      if (is_weighted) unit *= memory_[slot(tile, i)];
      float& value = y[i / core::kGroup][i % core::kGroup];
      value = saturate(value * unit, DType::kFloat32);
    }
    if (rotates_) apply_signs(tile, signs(tile, seeds, 0), y);
  }

  /// True of the unit of a whole tile that is one block, rotated once with 4 bits, if neither a sum
  /// of levels times this unit, which is at most 1024 * 2.74, nor that as a bfloat16 overflows.
  RINGPRESS_DEVICE static bool is_harmless(float unit) {
    return core::magnitude_bits(unit) < core::bits_of(0x1p115f) && unit != 0;
  }

  /// What the rotation of the block of a row multiplies squared lengths with.
  template <typename TileOf>
  RINGPRESS_DEVICE float gain(const TileOf& tile, unsigned row) const {
    const std::size_t count = core::block_count(tile, row, block_);
    return rotation_gain(is_rotated(count) ? rounds() : 0, count);
  }

 private:
  static constexpr unsigned kTileValues = core::kRows * core::kGroup;  // Of a lane.

  template <typename TileOf>
  RINGPRESS_DEVICE static bool is_whole(const TileOf& tile) {
    return TileOf::kIsWhole || tile.count == kTileElements;
  }
  RINGPRESS_DEVICE int rounds() const { return unbiased_ ? 2 : 1; }
  /// See rotations().
  RINGPRESS_DEVICE bool is_rotated(std::size_t count) const {
    return rotates_ && (!unbiased_ || count == block_);
  }
  /// Elements of the block that a place of the tile belongs to.
  template <typename TileOf>
  RINGPRESS_DEVICE unsigned count_at(const TileOf& tile, unsigned place) const {
    const unsigned begin = place & ~(block_ - 1);
    return tile.count - begin < block_ ? tile.count - begin : block_;
  }

  /// Bit 8 row + k is set where d is minus. Most tiles have those of the one before.
  template <typename TileOf>
  RINGPRESS_DEVICE std::uint32_t signs(const TileOf& tile, const RowSeeds& seeds, int round) const {
    if (unbiased_ || !is_whole(tile)) return draw_signs(tile, seeds, round);
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
    const std::uint64_t base = unbiased_ ? 0 : kSharedSeed;
    std::uint32_t all = 0;
    RINGPRESS_ROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const unsigned byte = (tile.place(row) & (block_ - 1)) / core::kGroup;
      const philox4x32_ctr_t words = sign_words(base | seed_of(seeds, row), round, byte / 16);
      const std::uint32_t word = core::word_of(words, byte / 4 % 4);
      const std::uint32_t of_row = word >> (8 * (byte % 4)) & 0xFFu;
      const bool rotated =
          is_whole(tile) || (tile.valid(row) != 0 && is_rotated(count_at(tile, tile.place(row))));
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

  template <typename TileOf>
  RINGPRESS_DEVICE void transform(const TileOf& tile, core::Rows& y) const {
    if (is_whole(tile)) {
      transform_whole(y);
    } else {
      transform_parts(tile, y);
    }
  }

  RINGPRESS_DEVICE void transform_whole(core::Rows& y) const {
    constexpr unsigned kStrides = core::log2_of(kTileElements);
    RINGPRESS_UNROLL
    for (unsigned step = 1; step <= kStrides; ++step) {
      const unsigned stride = static_cast<unsigned>(kTileElements) >> step;
      if (stride >= block_) continue;
      if (stride < core::kGroup) {
        within_groups(stride, y);
      } else if (stride < core::kRowElements) {
        between_lanes(stride / core::kGroup, y);
      } else {
        between_rows(stride / core::kRowElements, y);
      }
    }
  }

  RINGPRESS_DEVICE static void butterfly(float& a, float& b) {
    const float sum = a + b;
    b = a - b;
    a = sum;
  }
  RINGPRESS_DEVICE static void within_groups(unsigned stride, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      const unsigned k = i % core::kGroup;
      if ((k & stride) == 0) butterfly(y[i / core::kGroup][k], y[i / core::kGroup][k | stride]);
    }
  }
  RINGPRESS_DEVICE static void between_rows(unsigned stride, core::Rows& y) {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      const unsigned row = i / core::kGroup;
      const unsigned k = i % core::kGroup;
      if ((row & stride) == 0) butterfly(y[row][k], y[row | stride][k]);
    }
  }
  RINGPRESS_DEVICE void between_lanes(unsigned stride, core::Rows& y) const {
    float others[kTileValues];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) others[i] = y[i / core::kGroup][i % core::kGroup];
    simt_.shuffle_xor(others, stride);
    // The upper one of two takes itself from the other: minus itself, plus the other.
    const float sign = (simt_.lane() & stride) != 0 ? -1.0f : 1.0f;
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      float& value = y[i / core::kGroup][i % core::kGroup];
      value = core::add_exact_product(value, sign, others[i]);
    }
  }

  /// hadamard() of every part of every block, in the warp's memory.
  template <typename TileOf>
  RINGPRESS_DEVICE void transform_parts(const TileOf& tile, core::Rows& y) const {
    simt_.sync_warp();
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      memory_[slot(tile, i)] = y[i / core::kGroup][i % core::kGroup];
    }
    simt_.sync_warp();
    RINGPRESS_ROLL
    for (unsigned stride = block_ / 2; stride >= 1; stride /= 2) {
      RINGPRESS_ROLL
      for (unsigned pair = tile.lane; pair < kTileElements / 2; pair += core::kLanes) {
        const unsigned place = (pair & ~(stride - 1)) * 2 + (pair & (stride - 1));
        if (!is_mixed(tile, place, stride)) continue;
        butterfly(memory_[core::memory_slot(place)], memory_[core::memory_slot(place + stride)]);
      }
      simt_.sync_warp();
    }
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kTileValues; ++i) {
      y[i / core::kGroup][i % core::kGroup] = memory_[slot(tile, i)];
    }
  }
  template <typename TileOf>
  RINGPRESS_DEVICE static unsigned slot(const TileOf& tile, unsigned i) {
    return core::memory_slot(tile.place(i / core::kGroup) + i % core::kGroup);
  }

  /// True if the value at this place and the one `stride` further on are added and subtracted.
  template <typename TileOf>
  RINGPRESS_DEVICE bool is_mixed(const TileOf& tile, unsigned place, unsigned stride) const {
    if (place >= tile.count) return false;
    const unsigned count = count_at(tile, place);
    if (!is_rotated(count)) return false;
    return 2 * stride <= part_of(place & (block_ - 1), count);
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
    const unsigned count = count_at(tile, place);
    if (!is_rotated(count)) return 1;
    return weight_of(place & (block_ - 1), count);
  }

  const Simt& simt_;
  const unsigned block_;
  const bool rotates_;
  const bool unbiased_;
  float* const memory_;
  mutable bool has_signs_ = false;
  mutable std::uint32_t signs_seed_ = 0;
  mutable std::uint32_t signs_ = 0;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_ROTATION_CUH_
