// The wire bytes of qB:grid=lloyd, for core/tile_agent.cuh.
#ifndef COMPRESS_KERNELS_LLOYD_LLOYD_AGENT_CUH_
#define COMPRESS_KERNELS_LLOYD_LLOYD_AGENT_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/group_codes.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/device_parameters.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/tile_dither.cuh"
#include "compress_kernels/lloyd/tile_levels.cuh"
#include "compress_kernels/lloyd/tile_power.cuh"
#include "compress_kernels/lloyd/tile_quantiser.cuh"
#include "compress_kernels/lloyd/tile_rotation.cuh"
#include "compress_kernels/lloyd/whole_block.cuh"

namespace ringpress::compress_kernels::lloyd {

/// `Known`: one of the two above.
template <typename Simt, typename Known>
class LloydFormat {
 public:
  using Parameters = LloydDeviceParameters;
  /// A tile's values; the levels of what is encoded, and of what is decoded.
  static constexpr std::size_t kWarpMemory =
      (kTileElements + 2 * TileLevels::kWords) * sizeof(float);
  static constexpr bool kKnowsWholeTiles = Known::kIsShort;

  RINGPRESS_DEVICE LloydFormat(const Simt& simt, const Parameters& parameters, std::size_t count)
      : LloydFormat(simt, Known::of(parameters.codec), parameters.levels, count,
                    {0, parameters.saturates}) {}
  /// What the parts of a hop are decoded with.
  RINGPRESS_DEVICE static LloydFormat of_parts(const Simt& simt, const Parameters& parameters,
                                               std::size_t count) {
    return {simt,
            parameters_of_parts(Known::of(parameters.codec)),
            parameters.part_levels,
            count,
            {1, false}};
  }

  /// To scales; codes are moved as their alignment allows.
  RINGPRESS_DEVICE static bool is_aligned(const std::byte* wire) {
    return core::is_aligned(wire, sizeof(std::uint16_t));
  }

  template <typename T>
  RINGPRESS_DEVICE void saturate(float (&values)[core::kGroup]) const {
    constexpr DType kType = std::is_same_v<T, float>           ? DType::kFloat32
                            : std::is_same_v<T, core::Float16> ? DType::kFloat16
                                                               : DType::kBfloat16;
    if (!saturates_ || (kType != DType::kFloat16 && is_harmless_)) return;
    RINGPRESS_UNROLL
    for (float& value : values) value = lloyd::saturate(value, kType);
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    RowSeeds seeds = {};
    draw_seeds(tile, output, seeds);
    core::Rows y;
    Power powers[core::kRows];
    power_.rotate_and_measure(rotation_, tile, seeds, x, y, powers);
    std::uint16_t stored[core::kRows];
    if constexpr (TileOf::kIsWhole) {
      const std::uint16_t scale = encode_whole(tile, powers[0], output.wire, y);
      RINGPRESS_UNROLL
      for (std::uint16_t& of_row : stored) of_row = scale;
    } else {
      encode_any(tile, powers, x, output, y, stored);
    }
    store_scales(tile, stored, output.wire);
    if (!core::wants_values(output)) return;
    restore(tile, seeds, stored, y);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) sink(row, y[row]);
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RowSeeds seeds;
    std::uint16_t stored[core::kRows];
    core::Rows y;
    if constexpr (TileOf::kIsWhole) {
      const std::uint32_t seed = core::load_word(simt_, wire + seeds_offset_);
      const auto scale = simt_.template load<std::uint16_t>(wire + block_of(tile, 0) * 2);
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < core::kRows; ++row) {
        seeds[row] = seed;
        stored[row] = scale;
      }
      whole_.load_levels(tile, wire + planes_.high_offset, y);
    } else {
      load_levels(tile, wire, seeds, stored, y);
    }
    restore(tile, seeds, stored, y);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        if (k >= tile.valid(row)) y[row][k] = 0;
      }
      sink(row, y[row]);
    }
  }

 private:
  /// Writes the codes and makes levels of the rotated values. Gives the stored scale.
  template <typename TileOf>
  RINGPRESS_DEVICE std::uint16_t encode_whole(const TileOf& tile, const Power& power,
                                              std::byte* wire, core::Rows& y) const {
    std::byte* const codes = wire + planes_.high_offset;
    if (!(power.sum > 0)) {
      whole_.store_zeros(tile, codes, y);
      return power.sum == 0 ? 0 : core::kBfloat16Nan;
    }
    const float scale = whole_.quantise(tile, power.sum, codes, y);
    return stored_scale(scale, power, rotation_.gain(tile, 0));
  }

  /// The same for any tile, whose rows may be of several blocks.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode_any(const TileOf& tile, const Power (&powers)[core::kRows],
                                   const core::Rows& x, const core::EncodeOutput& output,
                                   core::Rows& y, std::uint16_t (&stored)[core::kRows]) const {
    if (quantiser_.dithers(tile)) dither_.encode(tile, x, output.random, stored);
    float products[core::kRows];
    quantiser_.quantise(tile, powers, output.wire, y, products);
    find_scales(tile, powers, products, y, stored);
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void load_levels(const TileOf& tile, const std::byte* wire, RowSeeds& seeds,
                                    std::uint16_t (&stored)[core::kRows], core::Rows& y) const {
    const core::Planes<const std::byte> planes{wire + planes_.high_offset,
                                               wire + planes_.low_offset};
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const bool exists = tile.valid(row) != 0;
      const std::size_t block = block_of(tile, row);
      seeds[row] = exists && rotates_ ? load_seed(wire, block) : 0;
      stored[row] = exists ? core::load_any<std::uint16_t>(simt_, wire + block * 2) : 0;
      std::uint32_t codes[core::kGroup] = {};
      if (exists) {
        core::load_codes(simt_, planes, tile.index(row), tile.valid(row), bits_, codes);
      }
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) y[row][k] = levels_.value_of(codes[k]);
    }
  }

  /// Which of the two of a hop it is, if there are two.
  struct Role {
    unsigned place;  // Of its table in the warp's memory.
    bool saturates;
  };
  RINGPRESS_DEVICE LloydFormat(const Simt& simt, const LloydParameters& codec,
                               const LevelTable& levels, std::size_t count, const Role& role)
      : LloydFormat(simt, codec, levels, lloyd_layout(codec, count), role) {
    simt.sync_warp();
  }
  RINGPRESS_DEVICE LloydFormat(const Simt& simt, const LloydParameters& codec,
                               const LevelTable& levels, const LloydLayout& layout,
                               const Role& role)
      : simt_(simt),
        bits_(codec.bits),
        block_(static_cast<unsigned>(codec.block)),
        block_shift_(core::log2_of(codec.block)),
        rotates_(codec.rotates),
        unbiased_(codec.unbiased),
        saturates_(role.saturates),
        seeds_offset_(layout.seeds_offset),
        planes_{layout.codes_offset, layout.low_codes_offset},
        memory_(static_cast<float*>(simt.warp_memory())),
        rotation_(simt, codec, memory_),
        levels_(codec.bits, levels, simt.lane(),
                memory_ + kTileElements + role.place * TileLevels::kWords),
        whole_(simt, levels),
        dither_(simt, codec, levels_, memory_),
        power_(simt, block_),
        quantiser_(simt, codec, levels_, planes_) {}

  template <typename TileOf>
  RINGPRESS_DEVICE std::size_t block_of(const TileOf& tile, unsigned row) const {
    return tile.index(row) >> block_shift_;
  }
  RINGPRESS_DEVICE std::uint32_t load_seed(const std::byte* wire, std::size_t block) const {
    const std::size_t index = unbiased_ ? block : 0;
    return core::load_any<std::uint32_t>(simt_, wire + seeds_offset_ + index * 4);
  }

  /// Those of Chunk::draw_seed(), on the wire too.
  template <typename TileOf>
  RINGPRESS_DEVICE void draw_seeds(const TileOf& tile, const core::EncodeOutput& output,
                                   RowSeeds& seeds) const {
    const std::uint32_t shared = shared_seed(output.random);
    if constexpr (TileOf::kIsWhole) {
      RINGPRESS_UNROLL
      for (std::uint32_t& seed : seeds) seed = shared;
      if (tile.first == 0 && tile.lane == 0) store_seed(output.wire, 0, shared);
    } else {
      RINGPRESS_ROLL
      for (unsigned row = 0; row < core::kRows; ++row) {
        const std::size_t block = block_of(tile, row);
        const std::uint32_t seed = unbiased_ ? own_seed(output.random, block) : shared;
        set_seed(seeds, row, seed);
        if (!rotates_ || !core::leads_block(tile, row, block_)) continue;
        if (unbiased_ || block == 0) store_seed(output.wire, block, seed);
      }
    }
  }
  RINGPRESS_DEVICE std::uint32_t own_seed(const RandomKey& random, std::size_t block) const {
    const std::size_t first = block << block_shift_;
    return core::random_half(random, first) | core::random_half(random, first + 1) << 16;
  }
  RINGPRESS_DEVICE void store_seed(std::byte* wire, std::size_t block, std::uint32_t seed) const {
    core::store_any(simt_, wire + seeds_offset_ + block * 4, seed);
  }

  /// The stored scales, but for those of dithered rows. Levels of blocks that have none become
  /// those of code 0.
  template <typename TileOf>
  RINGPRESS_DEVICE void find_scales(const TileOf& tile, const Power (&powers)[core::kRows],
                                    const float (&products)[core::kRows], core::Rows& levels,
                                    std::uint16_t (&stored)[core::kRows]) const {
    // Not looked at with unbiased rounding, but a branch here would cost registers.
    float squares[core::kRows];
    power_.sum_squares(levels, squares);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (quantiser_.is_dithered(tile, row)) continue;
      if (powers[row].sum > 0) {
        const float scale =
            unbiased_ ? powers[row].sum / products[row] : products[row] / squares[row];
        stored[row] = stored_scale(scale, powers[row], rotation_.gain(tile, row));
        continue;
      }
      stored[row] = powers[row].sum == 0 ? 0 : core::kBfloat16Nan;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) levels[row][k] = levels_.value_of(0);
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void store_scales(const TileOf& tile, const std::uint16_t (&stored)[core::kRows],
                                     std::byte* wire) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (!core::leads_block(tile, row, block_)) continue;
      core::store_any(simt_, wire + block_of(tile, row) * 2, stored[row]);
    }
  }

  /// From levels to values: decode_block().
  template <typename TileOf>
  RINGPRESS_DEVICE void restore(const TileOf& tile, const RowSeeds& seeds,
                                const std::uint16_t (&stored)[core::kRows], core::Rows& y) const {
    float units[core::kRows];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      units[row] = core::widen(core::Bfloat16{stored[row]});
    }
    rotation_.rotate_back(tile, seeds, units, y);
    if constexpr (TileOf::kIsWhole) {
      is_harmless_ = rotation_.is_harmless(units[0]);
      if (is_harmless_) return;
    }
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < core::kRows * core::kGroup; ++i) {
      const float unit = units[i / core::kGroup];
      float& value = y[i / core::kGroup][i % core::kGroup];
      value = !core::is_finite(unit) ? core::float_of(core::kCanonicalNanBits)
              : unit == 0            ? 0.0f
                                     : value;
    }
  }

  const Simt& simt_;
  const int bits_;
  const unsigned block_;
  const unsigned block_shift_;
  const bool rotates_;
  const bool unbiased_;
  const bool saturates_;
  const std::size_t seeds_offset_;
  const CodePlanes planes_;
  float* const memory_;
  const TileRotation<Simt> rotation_;
  const TileLevels levels_;
  const WholeBlock<Simt> whole_;
  const TileDither<Simt> dither_;
  const TilePower<Simt> power_;
  const TileQuantiser<Simt, Known> quantiser_;
  mutable bool is_harmless_ = false;  // See TileRotation; of the tile that was restored last.
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const LloydDeviceParameters& parameters, Visitor&& visitor) {
  const LloydParameters& codec = parameters.codec;
  const LloydParameters usual = UsualParameters::of(codec);
  const bool same_bits =
      codec.bits == usual.bits && (codec.part_bits == 0 || codec.part_bits == codec.bits);
  if (same_bits && codec.block == usual.block && codec.rotates && !codec.unbiased) {
    return visitor(core::TypeTag<LloydFormat<Simt, UsualParameters>>{});
  }
  return visitor(core::TypeTag<LloydFormat<Simt, AnyParameters>>{});
}

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_LLOYD_AGENT_CUH_
