// The wire bytes of tern, for core/tile_agent.cuh. The five digits of a byte lie S values apart, in
// different lanes: they pass through the warp's memory.
#ifndef COMPRESS_KERNELS_TERN_TERN_AGENT_CUH_
#define COMPRESS_KERNELS_TERN_TERN_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/tern/digits.h"
#include "compress_kernels/tern/tern.h"

namespace ringpress::compress_kernels::tern {

template <typename Simt>
class TernFormat {
 public:
  using Parameters = TernParameters;
  static constexpr std::size_t kWarpMemory = core::kSumMemory;
  static constexpr bool kKnowsWholeTiles = false;

  RINGPRESS_DEVICE TernFormat(const Simt& simt, const TernParameters& parameters, std::size_t count)
      : simt_(simt),
        parameters_(parameters),
        block_shift_(core::log2_of(parameters.block)),
        digits_offset_(tern_digits_offset(parameters, count)) {}

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void encode(const TileOf& tile, const core::Rows& x,
                               const core::EncodeOutput& output, Sink&& sink) const {
    const RandomKey& random = output.random;
    std::byte* const wire = output.wire;
    std::uint32_t largest[core::kRows];
    core::find_largest(simt_, parameters_.block, x, largest);
    float squares[core::kRows] = {};
    if (parameters_.clip != 0) find_squares(tile, x, largest, squares);
    simt_.sync_warp();
    std::uint32_t words[core::kGroup];
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      if (row % 2 == 0) draw_words(tile, row, random, words);
      const BlockScale scale =
          scale_of(largest[row], parameters_.clip, core::block_count(tile, row, parameters_.block),
                   [&](float) { return squares[row]; });
      if (core::leads_block(tile, row, parameters_.block)) {
        core::store_any(simt_, wire + (tile.index(row) >> block_shift_) * sizeof scale.stored,
                        scale.stored);
      }
      float y[core::kGroup];
      encode_row(tile, row, x[row], scale, words, y);
      sink(row, y);
    }
    simt_.sync_warp();
    store_digits(tile, wire);
  }

  template <typename TileOf, typename Sink>
  RINGPRESS_DEVICE void decode(const TileOf& tile, const std::byte* wire, Sink&& sink) const {
    simt_.sync_warp();
    load_digits(tile, wire);
    simt_.sync_warp();
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < core::kRows; ++row) {
      float y[core::kGroup] = {};
      if (tile.valid(row) != 0) {
        const auto stored = core::load_any<std::uint16_t>(
            simt_, wire + (tile.index(row) >> block_shift_) * sizeof(std::uint16_t));
        RINGPRESS_UNROLL
        for (unsigned k = 0; k < core::kGroup; ++k) {
          if (k < tile.valid(row)) y[k] = value_of_digit(digits()[tile.place(row) + k], stored);
        }
      }
      sink(row, y);
    }
  }

 private:
  RINGPRESS_DEVICE std::uint8_t* digits() const {
    return static_cast<std::uint8_t*>(simt_.warp_memory());
  }
  template <typename TileOf>
  RINGPRESS_DEVICE std::byte* bytes_of(const TileOf& tile, std::byte* wire) const {
    return wire + digits_offset_ + tile.first / kTileElements * kTernTileBytes;
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void find_squares(const TileOf& tile, const core::Rows& x,
                                     const std::uint32_t (&largest)[core::kRows],
                                     float (&squares)[core::kRows]) const {
    core::sum_blocks(simt_, tile, parameters_.block, squares, [&](unsigned row, unsigned k) {
      const float y = x[row][k] * normalising_factor(largest[row]);
      return y * y;
    });
  }

  /// The words of which two neighbouring values of rows `row` and `row` + 1 take their bits: of
  /// each row four. See digits.h.
  template <typename TileOf>
  RINGPRESS_DEVICE void draw_words(const TileOf& tile, unsigned row, const RandomKey& random,
                                   std::uint32_t (&words)[core::kGroup]) const {
    const std::uint64_t group =
        first_group(random, tile.first) + 16 * (row / 2) + tile.lane % 4 * 4;
    const philox4x32_key_t key = core::philox_key(random);
    const bool second_part = tile.lane >= core::kLanes / 2;
    RINGPRESS_UNROLL
    for (unsigned j = 0; j < 4; ++j) {
      const philox4x32_ctr_t drawn = philox4x32(core::philox_counter(random, group + j), key);
      words[j] = second_part ? drawn.v[1] : drawn.v[0];
      words[4 + j] = second_part ? drawn.v[3] : drawn.v[2];
    }
  }

  /// Puts the digits in the warp's memory; y: the values that they stand for.
  template <typename TileOf>
  RINGPRESS_DEVICE void encode_row(const TileOf& tile, unsigned row, const float (&x)[core::kGroup],
                                   const BlockScale& scale,
                                   const std::uint32_t (&words)[core::kGroup],
                                   float (&y)[core::kGroup]) const {
    const unsigned window = tile.lane / 4 % 4;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < core::kGroup; ++k) {
      const std::uint32_t word = words[row % 2 * 4 + k / 2];
      const std::uint32_t digit = digit_of(x[k], scale, fraction_of(word, window, k % 2));
      y[k] = value_of_digit(digit, scale.stored);
      digits()[tile.place(row) + k] = static_cast<std::uint8_t>(digit);
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void store_digits(const TileOf& tile, std::byte* wire) const {
    const auto stride = static_cast<unsigned>(tern_digit_bytes(tile.count));
    for (unsigned j = tile.lane; j < stride; j += core::kLanes) {
      std::uint32_t byte = 0;
      std::uint32_t weight = 1;
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kDigitsPerByte; ++k, weight *= 3) {
        const unsigned place = j + k * stride;
        if (place < tile.count) byte += digits()[place] * weight;
      }
      simt_.store(bytes_of(tile, wire) + j, static_cast<std::uint8_t>(byte));
    }
  }

  template <typename TileOf>
  RINGPRESS_DEVICE void load_digits(const TileOf& tile, const std::byte* wire) const {
    const std::byte* const bytes = bytes_of(tile, const_cast<std::byte*>(wire));
    const auto stride = static_cast<unsigned>(tern_digit_bytes(tile.count));
    for (unsigned j = tile.lane; j < stride; j += core::kLanes) {
      std::uint32_t byte = simt_.template load<std::uint8_t>(bytes + j);
      RINGPRESS_UNROLL
      for (unsigned k = 0; k < kDigitsPerByte; ++k, byte /= 3) {
        const unsigned place = j + k * stride;
        const bool is_last = k + 1 == kDigitsPerByte;
        if (place < tile.count)
          digits()[place] = static_cast<std::uint8_t>(is_last ? byte : byte % 3);
      }
    }
  }

  const Simt& simt_;
  const TernParameters parameters_;
  const unsigned block_shift_;
  const std::size_t digits_offset_;
};

/// Calls visitor(core::TypeTag<Format>{}).
template <typename Simt, typename Visitor>
decltype(auto) visit_format(const TernParameters&, Visitor&& visitor) {
  return visitor(core::TypeTag<TernFormat<Simt>>{});
}

}  // namespace ringpress::compress_kernels::tern

#endif  // COMPRESS_KERNELS_TERN_TERN_AGENT_CUH_
