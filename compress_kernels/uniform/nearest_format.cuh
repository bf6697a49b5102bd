// The wire bytes of q4, with fitted scales, and q8 on the uniform grid, rounded to nearest, for
// core/tile_agent.cuh: as UniformFormat's, in fewer instructions. What is known of a block's scale
// is worked out by one lane: a block is 4 neighbouring lanes at least, and of these lane l does so
// for row l mod 4.
#ifndef COMPRESS_KERNELS_UNIFORM_NEAREST_FORMAT_CUH_
#define COMPRESS_KERNELS_UNIFORM_NEAREST_FORMAT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/uniform/nearest_group.cuh"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::uniform {

/// kBits: 4 or 8.
template <typename Simt, int kBits>
class NearestFormat {
 public:
  using Parameters = UniformParameters;
  static constexpr std::size_t kWarpMemory = 0;
  static constexpr bool kKnowsWholeTiles = true;
  static constexpr bool kFits = kBits <= core::kMostFittedBits;
  /// On a multiprocessor at once: 80 registers, or 96 where the scale of least squares takes more.
  static constexpr unsigned kLeastBlocks = kFits ? 5 : 6;

  RINGPRESS_DEVICE NearestFormat(const Simt& simt, const UniformParameters& parameters,
                                 std::size_t count)
      : simt_(simt),
        block_(static_cast<unsigned>(parameters.block)),
        block_shift_(core::log2_of(parameters.block)),
        codes_offset_(core::blocks_of(count, parameters.block) * sizeof(std::uint16_t)) {}

  /// To two bytes for scales, and to the codes of a group.
  RINGPRESS_DEVICE bool is_aligned(const std::byte* wire) const {
    return core::is_aligned(wire, sizeof(std::uint16_t)) &&
           core::is_aligned(wire + codes_offset_, kBits);
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    const core::BlockScale own = find_scale(tile, x);
    const bool own_is_finite = own.stored_unit != core::kBfloat16Nan;
    std::uint32_t inverses[core::kRows];
    share(own_is_finite ? core::bits_of(own.inverse) : core::kCanonicalNanBits, inverses);
    std::uint16_t own_unit = own.stored_unit;
    if constexpr (kFits) own_unit = fit(tile, x, inverses, own_unit);
    store_scale(tile, own_unit, output.wire);
    float steps[core::kRows] = {};
    const bool is_wanted = core::wants_values(output);
    if (is_wanted) share_step(own_unit, steps);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const bool finite = core::is_finite(core::float_of(inverses[row]));
      float rounded[core::kGroup];
      round_group<kBits>(x[row], core::float_of(inverses[row]), rounded);
      CodeWords<kBits> codes = join_group<kBits>(rounded);
      RINGPRESS_UNROLL
      for (std::uint32_t& word : codes.words) word = finite ? word : 0;
      store_row_codes<kBits>(simt_, tile, row, codes, output.wire + codes_offset_);
      if (!is_wanted) continue;
      float y[core::kGroup];
      restore_row(rounded, finite, steps[row], y);
      sink(row, y);
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    // All loads come before the first store: a store may be to where a later load is from, for all
    // that the compiler knows, and the lane would wait for memory once a row.
    const std::uint16_t own_unit = load_scale(tile, wire);
    CodeWords<kBits> codes[core::kRows] = {};
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (tile.valid(row) == 0) continue;
      codes[row] = load_row_codes<kBits>(simt_, tile, row, wire + codes_offset_);
    }
    float steps[core::kRows];
    share_step(own_unit, steps);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup];
      decode_row(tile, row, codes[row], steps[row], y);
      sink(row, y);
    }
  }

 private:
  /// Of the block that this lane works for, the first element in its 4 lanes, within the tile.
  template <typename TileOf>
  RINGPRESS_DEVICE static unsigned own_place(const TileOf& tile) {
    const unsigned row = tile.lane % core::kRows;
    return row * core::kRowElements + (tile.lane - row) * core::kGroup;
  }
  template <typename TileOf>
  RINGPRESS_DEVICE std::size_t own_block(const TileOf& tile) const {
    return (tile.first >> block_shift_) + (own_place(tile) >> block_shift_);
  }

  /// by_row: what the 4 lanes have, each for its row.
  RINGPRESS_DEVICE void share(std::uint32_t own, std::uint32_t (&by_row)[core::kRows]) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) by_row[row] = row;
    simt_.template look_up<core::kRows>(by_row, own);
  }
  RINGPRESS_DEVICE void share_step(std::uint16_t own_unit, float (&steps)[core::kRows]) const {
    std::uint32_t by_row[core::kRows];
    share(core::bits_of(core::uniform_unit(own_unit, kBits)), by_row);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) steps[row] = core::float_of(by_row[row]);
  }

  /// Of what there is for each row, that of the row which this lane works for.
  template <typename TileOf, typename T>
  RINGPRESS_DEVICE static T own_of(const TileOf& tile, const T (&by_row)[core::kRows]) {
    T own = by_row[0];
    RINGPRESS_UNROLL
    for (unsigned row = 1; row < core::kRows; ++row) {
      own = tile.lane % core::kRows == row ? by_row[row] : own;
    }
    return own;
  }

  /// The scale of least squares of the block that this lane works for, if that is finite.
  template <typename TileOf>
  RINGPRESS_DEVICE std::uint16_t fit(const TileOf& tile, const core::Rows& x,
                                     const std::uint32_t (&inverses)[core::kRows],
                                     std::uint16_t own_unit) const {
    core::FitSums sums[core::kRows];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        core::add_to_fit(x[row][k] * core::float_of(inverses[row]), core::fit_rounding(kBits),
                         &sums[row]);
      }
    }
    core::add_fits(simt_, block_, sums);
    return own_unit == core::kBfloat16Nan ? own_unit
                                          : core::fitted_unit(own_unit, own_of(tile, sums));
  }

  /// That of the block that this lane works for.
  template <typename TileOf>
  RINGPRESS_DEVICE core::BlockScale find_scale(const TileOf& tile, const core::Rows& x) const {
    std::uint32_t largest[core::kRows];
    core::find_largest(simt_, block_, x, largest);
    const std::uint32_t own = own_of(tile, largest);
    return own < core::kInfinityBits ? core::scale_from_magnitude(own, kBits)
                                     : core::scale_of_nonfinite_block();
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void store_scale(const TileOf& tile, std::uint16_t unit, std::byte* wire) const {
    const unsigned place = own_place(tile);
    if ((place & (block_ - 1)) != 0 || place >= tile.count) return;
    std::byte* const to = wire + own_block(tile) * sizeof unit;
    if constexpr (TileOf::kIsWhole) {
      simt_.store(to, unit);
    } else {
      core::store_any<std::uint16_t>(simt_, to, unit);
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE std::uint16_t load_scale(const TileOf& tile, const std::byte* wire) const {
    const std::byte* const from = wire + own_block(tile) * sizeof(std::uint16_t);
    if constexpr (TileOf::kIsWhole) return simt_.template load<std::uint16_t>(from);
    if (own_place(tile) >= tile.count) return 0;
    return core::load_any<std::uint16_t>(simt_, from);
  }

  RINGPRESS_DEVICE static void restore_row(const float (&rounded)[core::kGroup], bool finite,
                                           float step, float (&y)[core::kGroup]) {
    const auto code_zero = static_cast<float>(-core::uniform_levels(kBits));
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      y[k] = (finite ? steps_of_rounded<kBits>(rounded[k]) : code_zero) * step;
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE static void decode_row(const TileOf& tile, unsigned row,
                                          const CodeWords<kBits>& codes, float step,
                                          float (&y)[core::kGroup]) {
    float steps[core::kGroup];
    split_group<kBits>(codes, steps);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      y[k] = k < tile.valid(row) ? steps[k] * step : 0.0f;
    }
  }

  const Simt& simt_;
  const unsigned block_;  // Elements.
  const unsigned block_shift_;
  const std::size_t codes_offset_;  // Bytes; scales are before the codes.
};

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_NEAREST_FORMAT_CUH_
