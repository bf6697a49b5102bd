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
#include "compress_kernels/lloyd/tile_encoder.cuh"
#include "compress_kernels/lloyd/tile_levels.cuh"
#include "compress_kernels/lloyd/tile_power.cuh"
#include "compress_kernels/lloyd/tile_quantiser.cuh"
#include "compress_kernels/lloyd/tile_rotation.cuh"
#include "compress_kernels/lloyd/tile_seeds.cuh"
#include "compress_kernels/lloyd/whole_block.cuh"

namespace ringpress::compress_kernels::lloyd {

/// `Known`: one of the two of tile_quantiser.cuh.
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
    seeds_.draw(tile, output, seeds);
    core::Rows y;
    Power powers[core::kRows];
    power_.rotate_and_measure(rotation_, tile, seeds, x, y, powers);
    std::uint16_t stored[core::kRows];
    if constexpr (TileOf::kIsWhole) {
      const std::uint16_t scale = encode_whole(tile, powers[0], output.wire, y);
      RINGPRESS_UNROLL
      for (std::uint16_t& of_row : stored) of_row = scale;
    } else {
      encoder_.encode(rotation_, power_, tile, powers, x, output, y, stored);
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
      const std::uint32_t seed = seeds_.load_shared(wire);
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

  template <typename TileOf>
  RINGPRESS_DEVICE void load_levels(const TileOf& tile, const std::byte* wire, RowSeeds& seeds,
                                    std::uint16_t (&stored)[core::kRows], core::Rows& y) const {
    const core::Planes<const std::byte> planes{wire + planes_.high_offset,
                                               wire + planes_.low_offset};
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const bool exists = tile.valid(row) != 0;
      const std::size_t block = block_of(tile, row);
      seeds[row] = exists ? seeds_.load(wire, block) : 0;
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
        saturates_(role.saturates),
        planes_{layout.codes_offset, layout.low_codes_offset},
        seeds_(simt, codec, layout.seeds_offset),
        rotation_(simt, codec, static_cast<float*>(simt.warp_memory())),
        levels_(codec.bits, levels, simt.lane(),
                static_cast<float*>(simt.warp_memory()) + kTileElements +
                    role.place * TileLevels::kWords),
        whole_(simt, levels),
        power_(simt, block_),
        encoder_(simt, codec, levels_, planes_) {}

  template <typename TileOf>
  RINGPRESS_DEVICE std::size_t block_of(const TileOf& tile, unsigned row) const {
    return tile.index(row) >> block_shift_;
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
  const bool saturates_;
  const CodePlanes planes_;
  const TileSeeds<Simt> seeds_;
  const TileRotation<Simt> rotation_;
  const TileLevels levels_;
  const WholeBlock<Simt> whole_;
  const TilePower<Simt> power_;
  const TileEncoder<Simt, Known> encoder_;
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
