// The wire bytes of q1 .. q8 and sign, for core/tile_agent.cuh: with parameters as they come.
// nearest_format.cuh knows the usual ones when it is compiled.
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
#include "compress_kernels/uniform/nearest_format.cuh"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::uniform {

template <typename Simt>
class UniformFormat {
 public:
  using Parameters = UniformParameters;
  static constexpr std::size_t kWarpMemory = core::kSumMemory;
  static constexpr bool kKnowsWholeTiles = false;

  RINGPRESS_DEVICE UniformFormat(const Simt& simt, const UniformParameters& parameters,
                                 std::size_t count)
      : simt_(simt),
        parameters_(parameters),
        layout_(uniform_layout(parameters_, count)),
        block_shift_(core::log2_of(parameters_.block)) {}

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    const RandomKey& random = output.random;
    std::byte* const wire = output.wire;
    Extremes extremes[core::kRows];
    find_extremes(tile, x, extremes);
    float sums[core::kRows] = {};
    if (takes_mean(parameters_)) {
      const float factor = 1.0f / static_cast<float>(parameters_.block);
      core::sum_blocks(simt_, tile, parameters_.block, sums, [&](unsigned row, unsigned k) {
        return core::float_of(core::magnitude_bits(x[row][k])) * factor;
      });
    }
    const auto scale_of_row = [&](unsigned row) RINGPRESS_INLINE_LAMBDA {
      return scale_of(parameters_, extremes[row], core::block_count(tile, row, parameters_.block),
                      [&] { return sums[row]; });
    };
    core::FitSums fits[core::kRows];
    if (takes_fit(parameters_)) {
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < core::kRows; ++row) {
        const float inverse = scale_of_row(row).inverse;
        RINGPRESS_UNROLL
        for (unsigned k = 0; k < core::kGroup; ++k) {
          core::add_to_fit(x[row][k] * inverse, core::fit_rounding(parameters_.bits), &fits[row]);
        }
      }
      core::add_fits(simt_, parameters_.block, fits);
    }
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      core::BlockScale scale = scale_of_row(row);
      if (takes_fit(parameters_) && scale.stored_unit != core::kBfloat16Nan) {
        scale.stored_unit = core::fitted_unit(scale.stored_unit, fits[row]);
      }
      if (core::leads_block(tile, row, parameters_.block)) store_scale(tile, row, scale, wire);
      float y[core::kGroup];
      encode_row(tile, row, x[row], scale, random, wire, y);
      sink(row, y);
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup] = {};
      if (tile.valid(row) != 0) decode_row(tile, row, wire, y);
      sink(row, y);
    }
  }

 private:
  template <typename TileOf>
  RINGPRESS_DEVICE void find_extremes(const TileOf& tile, const core::Rows& x,
                                      Extremes (&extremes)[core::kRows]) const {
    std::uint32_t magnitudes[core::kRows];
    // With core::find_largest() these kernels take more registers and instructions.
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
    return core::load_any<Word>(simt_, from);
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void store_scale(const TileOf& tile, unsigned row, const core::BlockScale& scale,
                                    std::byte* wire) const {
    const std::size_t block = tile.block(row, block_shift_);
    std::byte* const to = wire + layout_.units_offset + block * 2;
    core::store_any<std::uint16_t>(simt_, to, scale.stored_unit);
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
  if (same_bits && takes_fit(parameters) && parameters.bits == 4) {
    return visitor(core::TypeTag<NearestFormat<Simt, 4>>{});
  }
  if (same_bits && nearest && parameters.bits == 8) {
    return visitor(core::TypeTag<NearestFormat<Simt, 8>>{});
  }
  return visitor(core::TypeTag<UniformFormat<Simt>>{});
}

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_UNIFORM_AGENT_CUH_
