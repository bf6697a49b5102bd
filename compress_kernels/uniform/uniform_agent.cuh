// The wire bytes of q1 .. q8 and sign, for core/tile_agent.cuh.
#ifndef COMPRESS_KERNELS_UNIFORM_UNIFORM_AGENT_CUH_
#define COMPRESS_KERNELS_UNIFORM_UNIFORM_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/group_codes.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/uniform/codes.h"
#include "compress_kernels/uniform/nearest_group.cuh"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::uniform {

/// Parameters as they come.
struct AnyParameters {
  static constexpr int kKnownBits = 0;
  static constexpr std::size_t kWarpMemory = core::kSumMemory;
  RINGPRESS_DEVICE static UniformParameters of(const UniformParameters& parameters) {
    return parameters;
  }
};

/// Known when the kernel is compiled: the uniform grid, rounding to nearest, 4 or 8 bits.
template <int kBits>
struct NearestParameters {
  static constexpr int kKnownBits = kBits;
  static constexpr std::size_t kWarpMemory = 0;
  RINGPRESS_DEVICE static UniformParameters of(UniformParameters parameters) {
    parameters.bits = kBits;
    parameters.part_bits = 0;
    parameters.grid = Grid::kUniform;
    parameters.rounding = Rounding::kNearest;
    return parameters;
  }
};

/// `Known`: one of the two above.
template <typename Simt, typename Known>
class UniformFormat {
 public:
  using Parameters = UniformParameters;
  static constexpr std::size_t kWarpMemory = Known::kWarpMemory;
  static constexpr bool kKnowsWholeTiles = kWarpMemory == 0;

  RINGPRESS_DEVICE UniformFormat(const Simt& simt, const UniformParameters& parameters,
                                 std::size_t count)
      : simt_(simt),
        parameters_(Known::of(parameters)),
        layout_(uniform_layout(parameters_, count)),
        block_shift_(core::log2_of(parameters_.block)) {}

  /// To two bytes for scales, and to the codes of a group.
  RINGPRESS_DEVICE bool is_aligned(const std::byte* wire) const {
    return core::is_aligned(wire, sizeof(std::uint16_t)) &&
           core::is_aligned(wire + layout_.codes_offset, kKnownBits);
  }

  template <typename T>
  RINGPRESS_DEVICE static void saturate(float (&)[core::kGroup]) {}

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    const RandomKey& random = output.random;
    std::byte* const wire = output.wire;
    const bool is_wanted = core::wants_values(output);
    Extremes extremes[core::kRows];
    find_extremes(tile, x, extremes);
    float sums[core::kRows] = {};
    if (takes_mean(parameters_)) {
      const float factor = 1.0f / static_cast<float>(parameters_.block);
      core::sum_blocks(simt_, tile, parameters_.block, sums, [&](unsigned row, unsigned k) {
        return core::float_of(core::magnitude_bits(x[row][k])) * factor;
      });
    }
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const core::BlockScale scale =
          scale_of(parameters_, extremes[row], core::block_count(tile, row, parameters_.block),
                   [&] { return sums[row]; });
      if (core::leads_block(tile, row, parameters_.block)) store_scale(tile, row, scale, wire);
      if constexpr (kKnownBits != 0) {
        float steps[core::kGroup];
        encode_known_row(tile, row, x[row], scale, wire, steps);
        if (!is_wanted) continue;
        float y[core::kGroup];
        restore_known_row(steps, scale, y);
        sink(row, y);
      } else {
        float y[core::kGroup];
        encode_row(tile, row, x[row], scale, random, wire, y);
        sink(row, y);
      }
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup] = {};
      if (tile.valid(row) == 0) {
        // Nothing of it exists.
      } else if constexpr (kKnownBits != 0) {
        decode_known_row(tile, row, wire, y);
      } else {
        decode_row(tile, row, wire, y);
      }
      sink(row, y);
    }
  }

 private:
  static constexpr int kKnownBits = Known::kKnownBits;

  template <typename TileOf>
  RINGPRESS_DEVICE void find_extremes(const TileOf& tile, const core::Rows& x,
                                      Extremes (&extremes)[core::kRows]) const {
    std::uint32_t magnitudes[core::kRows];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      magnitudes[row] = 0;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        magnitudes[row] = core::largest_of(magnitudes[row], core::magnitude_bits(x[row][k]));
      }
    }
    core::reduce_blocks(simt_, parameters_.block, magnitudes, core::largest_of);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) extremes[row].magnitude = magnitudes[row];
    if (parameters_.grid == Grid::kMinMax) find_range(tile, x, extremes);
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void find_range(const TileOf& tile, const core::Rows& x,
                                   Extremes (&extremes)[core::kRows]) const {
    std::uint32_t least[core::kRows];
    std::uint32_t most[core::kRows];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float minimum = core::float_of(core::kInfinityBits);
      float maximum = -minimum;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        if (k >= tile.valid(row)) continue;
        minimum = x[row][k] < minimum ? x[row][k] : minimum;
        maximum = maximum < x[row][k] ? x[row][k] : maximum;
      }
      least[row] = core::bits_of(minimum);
      most[row] = core::bits_of(maximum);
    }
    core::reduce_blocks(simt_, parameters_.block, least, [](std::uint32_t a, std::uint32_t b) {
      return core::float_of(b) < core::float_of(a) ? b : a;
    });
    core::reduce_blocks(simt_, parameters_.block, most, [](std::uint32_t a, std::uint32_t b) {
      return core::float_of(a) < core::float_of(b) ? b : a;
    });
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      extremes[row].minimum = core::float_of(least[row]);
      extremes[row].maximum = core::float_of(most[row]);
    }
  }

  RINGPRESS_DEVICE core::Planes<std::byte> planes_of(std::byte* wire) const {
    return {wire + layout_.codes_offset, wire + layout_.low_codes_offset};
  }
  RINGPRESS_DEVICE core::Planes<const std::byte> planes_of(const std::byte* wire) const {
    return {wire + layout_.codes_offset, wire + layout_.low_codes_offset};
  }

  /// That of the row's block, of one for each block.
  template <typename Word, typename TileOf>
  RINGPRESS_DEVICE Word load_scale(const TileOf& tile, unsigned row,
                                   const std::byte* scales) const {
    const std::byte* const from = scales + tile.block(row, block_shift_) * sizeof(Word);
    if constexpr (TileOf::kIsWhole) return simt_.template load<Word>(from);
    return core::load_any<Word>(simt_, from);
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void store_scale(const TileOf& tile, unsigned row, const core::BlockScale& scale,
                                    std::byte* wire) const {
    const std::size_t block = tile.block(row, block_shift_);
    std::byte* const to = wire + layout_.units_offset + block * 2;
    if constexpr (TileOf::kIsWhole) {
      simt_.store(to, scale.stored_unit);
    } else {
      core::store_any<std::uint16_t>(simt_, to, scale.stored_unit);
    }
    if (parameters_.grid == Grid::kMinMax) {
      core::store_any<std::uint32_t>(simt_, wire + block * 4, core::bits_of(scale.low));
    }
  }

  /// Writes the codes; y: the values that they stand for.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode_row(const TileOf& tile, unsigned row, const float (&x)[core::kGroup],
                                   const core::BlockScale& scale, const RandomKey& random,
                                   std::byte* wire, float (&y)[core::kGroup]) const {
    float u[core::kGroup] = {};
    if (parameters_.rounding == Rounding::kStochastic) {
      core::draw_group(random, tile.index(row), u);
    }
    const bool finite = scale.stored_unit != core::kBfloat16Nan;
    const float step = step_of(parameters_, scale.stored_unit);
    std::uint32_t codes[core::kGroup];
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const bool has_code = finite && k < tile.valid(row);
      codes[k] = has_code ? quantise(parameters_, scale, x[k], u[k]) : 0;
      y[k] = value_of_code(parameters_, scale.low, step, codes[k]);
    }
    core::store_codes(simt_, planes_of(wire), tile.index(row), tile.valid(row), parameters_.bits,
                      codes);
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void decode_row(const TileOf& tile, unsigned row, const std::byte* wire,
                                   float (&y)[core::kGroup]) const {
    const auto stored = load_scale<std::uint16_t>(tile, row, wire + layout_.units_offset);
    const float low = parameters_.grid == Grid::kMinMax
                          ? core::float_of(load_scale<std::uint32_t>(tile, row, wire))
                          : 0.0f;
    std::uint32_t codes[core::kGroup];
    core::load_codes(simt_, planes_of(wire), tile.index(row), tile.valid(row), parameters_.bits,
                     codes);
    const float step = step_of(parameters_, stored);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      y[k] = k < tile.valid(row) ? value_of_code(parameters_, low, step, codes[k]) : 0.0f;
    }
  }

  /// Writes the codes; steps: what they stand for in a finite block.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode_known_row(const TileOf& tile, unsigned row,
                                         const float (&x)[core::kGroup],
                                         const core::BlockScale& scale, std::byte* wire,
                                         float (&steps)[core::kGroup]) const {
    quantise_group(x, scale.inverse, steps);
    CodeWords<kKnownBits> codes = join_group<kKnownBits>(steps);
    const bool finite = scale.stored_unit != core::kBfloat16Nan;
    RINGPRESS_UNROLL
    for (std::uint32_t& word : codes.words) word &= finite ? 0xFFFFFFFFu : 0u;
    store_row_codes<kKnownBits>(simt_, tile, row, codes, wire + layout_.codes_offset);
  }

  RINGPRESS_DEVICE void restore_known_row(const float (&steps)[core::kGroup],
                                          const core::BlockScale& scale,
                                          float (&y)[core::kGroup]) const {
    const bool finite = scale.stored_unit != core::kBfloat16Nan;
    const float step = step_of(parameters_, scale.stored_unit);
    const auto code_zero = static_cast<float>(-core::uniform_levels(kKnownBits));
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) y[k] = (finite ? steps[k] : code_zero) * step;
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void decode_known_row(const TileOf& tile, unsigned row, const std::byte* wire,
                                         float (&y)[core::kGroup]) const {
    const auto stored = load_scale<std::uint16_t>(tile, row, wire + layout_.units_offset);
    const float step = step_of(parameters_, stored);
    float steps[core::kGroup];
    split_group<kKnownBits>(
        load_row_codes<kKnownBits>(simt_, tile, row, wire + layout_.codes_offset), steps);
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      y[k] = k < tile.valid(row) ? steps[k] * step : 0.0f;
    }
  }

  const Simt& simt_;
  const UniformParameters parameters_;
  const UniformLayout layout_;
  const unsigned block_shift_;
};

/// Calls visitor(core::TypeTag<Format>{}) with the Format that knows most of these parameters.
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const UniformParameters& parameters, Visitor&& visitor) {
  const bool same_bits = parameters.part_bits == 0 || parameters.part_bits == parameters.bits;
  const bool nearest =
      parameters.grid == Grid::kUniform && parameters.rounding == Rounding::kNearest;
  if (same_bits && nearest && parameters.bits == 4) {
    return visitor(core::TypeTag<UniformFormat<Simt, NearestParameters<4>>>{});
  }
  if (same_bits && nearest && parameters.bits == 8) {
    return visitor(core::TypeTag<UniformFormat<Simt, NearestParameters<8>>>{});
  }
  return visitor(core::TypeTag<UniformFormat<Simt, AnyParameters>>{});
}

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_UNIFORM_AGENT_CUH_
