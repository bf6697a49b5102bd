// The wire bytes of fp8, for core/tile_agent.cuh.
#ifndef COMPRESS_KERNELS_FP8_FP8_AGENT_CUH_
#define COMPRESS_KERNELS_FP8_FP8_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/group_codes.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/fp8/codes.h"
#include "compress_kernels/fp8/fp8.h"

namespace ringpress::compress_kernels::fp8 {

template <typename Simt, Float8Format kFormat>
class Fp8Format {
 public:
  using Parameters = Fp8Parameters;
  static constexpr std::size_t kWarpMemory = 0;
  static constexpr bool kKnowsWholeTiles = true;

  RINGPRESS_DEVICE Fp8Format(const Simt& simt, const Fp8Parameters& parameters, std::size_t count)
      : simt_(simt),
        block_(parameters.block),
        block_shift_(core::log2_of(parameters.block)),
        codes_offset_(fp8_codes_offset(parameters, count)),
        stochastic_(parameters.stochastic) {}

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    const RandomKey& random = output.random;
    std::byte* const wire = output.wire;
    std::uint32_t largest[core::kRows];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      largest[row] = 0;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        const std::uint32_t magnitude = core::magnitude_bits(x[row][k]);
        const std::uint32_t finite = magnitude < core::kInfinityBits ? magnitude : 0;
        largest[row] = core::largest_of(largest[row], finite);
      }
    }
    core::reduce_blocks(simt_, block_, largest, core::largest_of);
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      const std::uint16_t unit = stored_unit<kFormat>(largest[row]);
      if (core::leads_block(tile, row, block_)) {
        core::store_any(simt_, wire + (tile.index(row) >> block_shift_) * sizeof unit, unit);
      }
      float y[core::kGroup];
      encode_row(tile, row, x[row], unit, random, wire, y);
      sink(row, y);
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup] = {};
      const unsigned valid = tile.valid(row);
      if (valid != 0) {
        const auto unit = core::load_any<std::uint16_t>(
            simt_, wire + (tile.index(row) >> block_shift_) * sizeof(std::uint16_t));
        const std::uint64_t codes =
            core::load_bytes(simt_, wire + codes_offset_ + tile.index(row), valid);
        RINGPRESS_UNROLL
        for (unsigned k = 0; k < core::kGroup; ++k) {
          const auto code = static_cast<std::uint8_t>(codes >> (8 * k));
          if (k < valid) y[k] = value_of_code<kFormat>(code, unit);
        }
      }
      sink(row, y);
    }
  }

 private:
  /// Writes the codes; y: the values that they stand for.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode_row(const TileOf& tile, unsigned row, const float (&x)[core::kGroup],
                                   std::uint16_t unit, const RandomKey& random, std::byte* wire,
                                   float (&y)[core::kGroup]) const {
    float u[core::kGroup] = {};
    if (stochastic_) core::draw_group(random, tile.index(row), u);
    const float inverse = inverse_unit(unit);
    std::uint64_t codes = 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const std::uint8_t code = stochastic_ ? stochastic_code<kFormat>(x[k], inverse, u[k])
                                            : nearest_code<kFormat>(x[k], inverse);
      codes |= static_cast<std::uint64_t>(code) << (8 * k);
      y[k] = value_of_code<kFormat>(code, unit);
    }
    core::store_bytes(simt_, wire + codes_offset_ + tile.index(row), tile.valid(row), codes);
  }

  const Simt& simt_;
  const std::size_t block_;
  const unsigned block_shift_;
  const std::size_t codes_offset_;
  const bool stochastic_;
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const Fp8Parameters& parameters, Visitor&& visitor) {
  if (parameters.format == Float8Format::kE4m3) {
    return visitor(core::TypeTag<Fp8Format<Simt, Float8Format::kE4m3>>{});
  }
  return visitor(core::TypeTag<Fp8Format<Simt, Float8Format::kE5m2>>{});
}

}  // namespace ringpress::compress_kernels::fp8

#endif  // COMPRESS_KERNELS_FP8_FP8_AGENT_CUH_
