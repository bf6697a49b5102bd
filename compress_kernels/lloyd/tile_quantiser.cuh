// From the rotated values of a tile to codes, on the wire, and levels.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_QUANTISER_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_QUANTISER_CUH_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/group_codes.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/block_sums.cuh"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/tile_dither.cuh"
#include "compress_kernels/lloyd/tile_levels.cuh"

namespace ringpress::compress_kernels::lloyd {

/// Parameters as they come.
struct AnyParameters {
  static constexpr bool kIsShort = false;
  RINGPRESS_DEVICE static LloydParameters of(const LloydParameters& parameters) {
    return parameters;
  }
};

/// The usual ones, known when the kernel is compiled: its code is short and fast.
struct UsualParameters {
  static constexpr bool kIsShort = true;
  RINGPRESS_HOST_DEVICE static LloydParameters of(const LloydParameters& parameters) {
    LloydParameters usual;
    usual.part_bits = usual.bits;
    usual.dtype = parameters.dtype;
    return usual;
  }
};

/// Where the codes of a chunk are.
struct CodePlanes {
  std::size_t high_offset = 0;
  std::size_t low_offset = 0;
};

template <typename Simt, typename Known>
class TileQuantiser {
 public:
  RINGPRESS_DEVICE TileQuantiser(const Simt& simt, const LloydParameters& codec, TileLevels levels,
                                 const CodePlanes& planes)
      : simt_(simt),
        bits_(codec.bits),
        block_(static_cast<unsigned>(codec.block)),
        unbiased_(codec.unbiased),
        offsets_(planes),
        levels_(levels) {}

  /// True for a tile with a block that is dithered, and for the rows of that.
  template <typename TileOf>
  RINGPRESS_DEVICE bool dithers(const TileOf& tile) const {
    return unbiased_ && tile.count < kTileElements;
  }
  template <typename TileOf>
  RINGPRESS_DEVICE bool is_dithered(const TileOf& tile, unsigned row) const {
    return dithers(tile) && takes_dither(tile, row, block_);
  }

  /// Writes the codes and makes levels of the values. Blocks without a level get codes 0.
  /// `products`: sums of values times levels.
  template <typename TileOf>
  RINGPRESS_DEVICE void quantise(const TileOf& tile, const Power (&powers)[core::kRows],
                                 std::byte* wire, core::Rows& y,
                                 float (&products)[core::kRows]) const {
    // Codes of dithered rows are there already.
    if (!dithers(tile)) simt_.sync_warp();
    if constexpr (!Known::kIsShort) quantise_in_memory(tile, powers, wire, y);
    BlockSums sums(block_);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float levels[core::kGroup];
      if constexpr (Known::kIsShort) {
        quantise_row(tile, row, powers[row].sum, wire, y[row], levels);
      } else {
        core::get_terms(simt_, tile, row, levels);
      }
      float terms[core::kGroup];
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        terms[k] = powers[row].sum > 0 ? y[row][k] * levels[k] : 0.0f;
        y[row][k] = levels[k];
      }
      sums.add(row, terms);
    }
    sums.finish(simt_, products);
  }

 private:
  /// Puts the levels of all rows in the warp's memory, in a loop that is not unrolled: with all
  /// parameters it is so long that four of it would not stay in the instruction cache.
  template <typename TileOf>
  RINGPRESS_DEVICE void quantise_in_memory(const TileOf& tile, const Power (&powers)[core::kRows],
                                           std::byte* wire, const core::Rows& y) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (!is_dithered(tile, row)) core::put_terms(simt_, tile, row, y[row]);
    }
    RINGPRESS_ROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float values[core::kGroup];
      float found[core::kGroup];
      core::get_terms(simt_, tile, row, values);
      const float power = row < 2 ? (row == 0 ? powers[0].sum : powers[1].sum)
                                  : (row == 2 ? powers[2].sum : powers[3].sum);
      quantise_row(tile, row, power, wire, values, found);
      core::put_terms(simt_, tile, row, found);
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void quantise_row(const TileOf& tile, unsigned row, float power, std::byte* wire,
                                     const float (&y)[core::kGroup],
                                     float (&levels)[core::kGroup]) const {
    const bool has_levels = power > 0;
    const auto count = static_cast<float>(core::block_count(tile, row, block_));
    const TileLevels::Measure measure = levels_.measure(has_levels ? std::sqrt(power / count) : 1);
    const bool dithered = is_dithered(tile, row);
    std::uint32_t codes[core::kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const SignedLevel level = levels_.nearest(measure, has_levels ? y[k] : 0.0f);
      const bool has_code = has_levels && k < tile.valid(row);
      codes[k] = dithered ? core::bits_of(y[k]) : has_code ? level.code : 0;
      levels[k] = dithered ? levels_.value_of(codes[k]) : has_code ? level.value : 0.0f;
    }
    const core::Planes<std::byte> planes{wire + offsets_.high_offset, wire + offsets_.low_offset};
    core::store_codes(simt_, planes, tile.index(row), tile.valid(row), bits_, codes);
  }

  const Simt& simt_;
  const int bits_;
  const unsigned block_;
  const bool unbiased_;
  const CodePlanes offsets_;
  const TileLevels levels_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_QUANTISER_CUH_
