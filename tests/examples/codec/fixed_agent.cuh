// The wire bytes of `fixed`, for core/tile_agent.cuh: what a GPU's warp does, and a warp of fibers.
#ifndef TESTS_EXAMPLES_CODEC_FIXED_AGENT_CUH_
#define TESTS_EXAMPLES_CODEC_FIXED_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "tests/examples/codec/fixed.h"

namespace ringpress::compress_kernels::fixed {

template <typename Simt>
class FixedFormat {
 public:
  using Parameters = FixedParameters;
  static constexpr std::size_t kWarpMemory = 0;
  static constexpr bool kKnowsWholeTiles = false;

  RINGPRESS_DEVICE FixedFormat(const Simt& simt, const FixedParameters& parameters, std::size_t)
      : simt_(simt), steps_(parameters.steps) {}

  /// A lane has the eight values of each row of the tile.
  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      std::uint64_t codes = 0;
      float y[core::kGroup];
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        const std::uint8_t code = code_of(x[row][k], steps_);
        codes |= static_cast<std::uint64_t>(code) << (8 * k);
        y[k] = value_of(code, steps_);
      }
      core::store_bytes(simt_, output.wire + tile.index(row), tile.valid(row), codes);
      sink(row, y);
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup] = {};
      const unsigned valid = tile.valid(row);
      const std::uint64_t codes =
          valid == 0 ? 0 : core::load_bytes(simt_, wire + tile.index(row), valid);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) {
        if (k < valid) y[k] = value_of(static_cast<std::uint8_t>(codes >> (8 * k)), steps_);
      }
      sink(row, y);
    }
  }

 private:
  const Simt& simt_;
  const float steps_;
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const FixedParameters&, Visitor&& visitor) {
  return visitor(core::TypeTag<FixedFormat<Simt>>{});
}

}  // namespace ringpress::compress_kernels::fixed

#endif  // TESTS_EXAMPLES_CODEC_FIXED_AGENT_CUH_
