// The wire bytes of fp16 and bf16, for core/tile_agent.cuh. A signalling NaN comes out quiet, also
// where the reference copies its bits.
#ifndef COMPRESS_KERNELS_CAST_CAST_AGENT_CUH_
#define COMPRESS_KERNELS_CAST_CAST_AGENT_CUH_

#include <cstddef>

#include "compress_kernels/cast/cast.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"

namespace ringpress::compress_kernels::cast {

/// `Wire`: core::Float16 or core::Bfloat16.
template <typename Simt, typename Wire>
class CastFormat {
 public:
  using Parameters = CastParameters;
  static constexpr std::size_t kWarpMemory = 0;
  static constexpr bool kKnowsWholeTiles = true;

  RINGPRESS_DEVICE CastFormat(const Simt& simt, const CastParameters&, std::size_t) : simt_(simt) {}

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      store(output.wire, tile.index(row), tile.valid(row), x[row]);
      float y[core::kGroup];
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < core::kGroup; ++k) y[k] = widen(core::narrow<Wire>(x[row][k]));
      sink(row, y);
    }
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup];
      load(wire, tile.index(row), tile.valid(row), y);
      sink(row, y);
    }
  }

 private:
  /// Bytes of the half of a group from element `first` on.
  RINGPRESS_DEVICE static unsigned half_bytes(unsigned valid, unsigned first) {
    const unsigned rest = valid > first ? valid - first : 0;
    return (rest < kHalf ? rest : kHalf) * sizeof(Wire);
  }

  RINGPRESS_DEVICE void store(std::byte* wire, std::size_t index, unsigned valid,
                              const float (&x)[core::kGroup]) const {
    if (core::is_aligned(wire, sizeof(Wire))) {
      core::store_group<Wire>(simt_, wire, index, valid, x);
      return;
    }
    RINGPRESS_UNROLL
    for (unsigned first = 0; first < core::kGroup; first += kHalf) {
      std::uint64_t bytes = 0;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kHalf; ++k) {
        bytes |= static_cast<std::uint64_t>(core::narrow<Wire>(x[first + k]).bits) << (16 * k);
      }
      core::store_words<std::uint8_t>(simt_, wire + (index + first) * sizeof(Wire),
                                      half_bytes(valid, first), bytes);
    }
  }

  RINGPRESS_DEVICE void load(const std::byte* wire, std::size_t index, unsigned valid,
                             float (&y)[core::kGroup]) const {
    if (core::is_aligned(wire, sizeof(Wire))) {
      core::load_group<Wire>(simt_, wire, index, valid, y);
      return;
    }
    RINGPRESS_UNROLL
    for (unsigned first = 0; first < core::kGroup; first += kHalf) {
      const std::uint64_t bytes = core::load_words<std::uint8_t>(
          simt_, wire + (index + first) * sizeof(Wire), half_bytes(valid, first));
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kHalf; ++k) {
        y[first + k] = widen(Wire{static_cast<std::uint16_t>(bytes >> (16 * k))});
      }
    }
  }

  static constexpr unsigned kHalf = core::kGroup / 2;

  const Simt& simt_;
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const CastParameters& parameters, Visitor&& visitor) {
  if (parameters.wire == DType::kFloat16) {
    return visitor(core::TypeTag<CastFormat<Simt, core::Float16>>{});
  }
  return visitor(core::TypeTag<CastFormat<Simt, core::Bfloat16>>{});
}

}  // namespace ringpress::compress_kernels::cast

#endif  // COMPRESS_KERNELS_CAST_CAST_AGENT_CUH_
