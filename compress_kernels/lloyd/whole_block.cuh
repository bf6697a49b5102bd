// A tile that is one block of 1024 values with 4 bits: what nearly all tiles are. Codes and levels
// are those of tile_levels.cuh in a third of the instructions: tables have an entry in each lane,
// and a look-up is a shuffle.
#ifndef COMPRESS_KERNELS_LLOYD_WHOLE_BLOCK_CUH_
#define COMPRESS_KERNELS_LLOYD_WHOLE_BLOCK_CUH_

#include <cmath>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block_sums.cuh"
#include "compress_kernels/lloyd/levels.h"

namespace ringpress::compress_kernels::lloyd {

template <typename Simt>
class WholeBlock {
 public:
  static constexpr int kBits = 4;
  static constexpr unsigned kBlock = kTileElements;
  /// `table`: of 4 bits.
  RINGPRESS_DEVICE WholeBlock(const Simt& simt, const LevelTable& table) : simt_(simt) {
    level_ = level_of(table, kCodes - 1 - simt.lane() % kCodes);
    fill_cell(table);
  }

  /// Makes levels of rotated values and writes their codes. Those of the chunk are at `wire`, which
  /// is aligned to two bytes. Gives the scale, of the rotated values, that leaves the least error.
  /// `power`: the sum of their squares, > 0.
  template <typename TileOf>
  RINGPRESS_DEVICE float quantise(const TileOf& tile, float power, std::byte* wire,
                                  core::Rows& y) const {
    const float deviation = std::sqrt(power / static_cast<float>(kBlock));
    const std::uint32_t start = core::bits_of(start_ * deviation);
    const float factor = kCellsPerDeviation / kCellSteps / deviation;
    BlockSums products(kBlock);
    BlockSums squares(kBlock);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      std::uint32_t found[core::kGroup];
      find_complements(y[row], factor, start, found);
      core::store_word(simt_, wire + tile.group(row) * kBits, join(found));
      look_up_levels(found);
      float terms[core::kGroup];
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) terms[k] = y[row][k] * core::float_of(found[k]);
      products.add(row, terms);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        y[row][k] = core::float_of(found[k]);
        terms[k] = y[row][k] * y[row][k];
      }
      squares.add(row, terms);
    }
    float product[core::kRows];
    float square[core::kRows];
    products.finish(simt_, product);
    squares.finish(simt_, square);
    return product[0] / square[0];
  }

  /// The same for a block without levels: codes 0.
  template <typename TileOf>
  RINGPRESS_DEVICE void store_zeros(const TileOf& tile, std::byte* wire, core::Rows& levels) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      core::store_word(simt_, wire + tile.group(row) * kBits, 0);
      take_levels(0, levels[row]);
    }
  }

  /// What the codes at `wire` stand for.
  template <typename TileOf>
  RINGPRESS_DEVICE void load_levels(const TileOf& tile, const std::byte* wire,
                                    core::Rows& levels) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      take_levels(core::load_word(simt_, wire + tile.group(row) * kBits), levels[row]);
    }
  }

 private:
  static constexpr unsigned kCodes = 1u << kBits;
  static constexpr unsigned kMagnitudes = kCodes / 2;
  /// Cells are those of CellTable, numbered from 0 on: number 15 has zero in its middle.
  static constexpr unsigned kCellsBelowZero = 15;
  static constexpr float kCellSteps = 2 * kCellsBelowZero;

  RINGPRESS_DEVICE static float level_of(const LevelTable& table, unsigned code) {
    return code < kMagnitudes ? -table.lowest_levels[kMagnitudes - 1 - code]
                              : table.lowest_levels[code - kMagnitudes];
  }
  /// Where a code begins; -0 for zero.
  RINGPRESS_DEVICE static float start_of(const LevelTable& table, unsigned code) {
    return code <= kMagnitudes ? -table.starts[kMagnitudes - code]
                               : table.starts[code - kMagnitudes];
  }

  /// The cell of this lane: at most one code begins within it.
  RINGPRESS_DEVICE void fill_cell(const LevelTable& table) {
    const float cell = static_cast<float>(simt_.lane()) - static_cast<float>(kCellsBelowZero);
    const float begin = (cell - 0.5f) / kCellsPerDeviation;
    const float end = (cell + 0.5f) / kCellsPerDeviation;
    start_ = kUnreached;
    least_complement_ = kCodes - 2;
    RINGPRESS_ROLL
    for (unsigned code = 1; code < kCodes; ++code) {
      const float start = start_of(table, code);
      if (start <= begin) least_complement_ = kCodes - 2 - code;
      if (start > begin && start < end) start_ = start;
    }
  }

  /// Which of two neighbouring cells a value at the edge of one is looked for in does not matter. A
  /// value is below where a code begins if their difference, rounded or not, is negative: a zero of
  /// either sign less -0 is +0.
  RINGPRESS_DEVICE void find_complements(const float (&y)[core::kGroup], float factor,
                                         std::uint32_t start,
                                         std::uint32_t (&complements)[core::kGroup]) const {
    constexpr float kFirstWhole = 8388608.0f;  // 2^23: the lowest bits of a float are its integer.
    std::uint32_t starts[core::kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const float place = core::limited_fma(y[k], factor, 0.5f);
      starts[k] = complements[k] = core::bits_of(core::rough_fma(place, kCellSteps, kFirstWhole));
    }
    simt_.template look_up<core::kLanes>(starts, start);
    simt_.template look_up<core::kLanes>(complements, least_complement_);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      complements[k] += core::bits_of(y[k] - core::float_of(starts[k])) >> 31;
    }
  }

  /// The wire's word of a group.
  RINGPRESS_DEVICE static std::uint32_t join(const std::uint32_t (&complements)[core::kGroup]) {
    std::uint32_t word = complements[core::kGroup - 1];
    RINGPRESS_UNROLL
    for (unsigned k = core::kGroup - 1; k > 0; --k) word = word * kCodes + complements[k - 1];
    return ~word;
  }

  /// Complements, below whatever other bits, become the bits of their levels.
  RINGPRESS_DEVICE void look_up_levels(std::uint32_t (&complements)[core::kGroup]) const {
    simt_.template look_up<kCodes>(complements, core::bits_of(level_));
  }

  RINGPRESS_DEVICE void take_levels(std::uint32_t word, float (&levels)[core::kGroup]) const {
    std::uint32_t found[core::kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) found[k] = ~word >> (kBits * k);
    look_up_levels(found);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) levels[k] = core::float_of(found[k]);
  }

  const Simt& simt_;
  float level_;  // Of the code whose complement is the lane's number mod 16.
  // Of the lane's cell: where a code begins, and the complement of that code.
  float start_;
  std::uint32_t least_complement_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_WHOLE_BLOCK_CUH_
