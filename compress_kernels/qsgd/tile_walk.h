// One tile of a chunk: its scratch memory, and how it finds its norms, levels and codes in a form.
#ifndef COMPRESS_KERNELS_QSGD_TILE_WALK_H_
#define COMPRESS_KERNELS_QSGD_TILE_WALK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/element.h"
#include "compress_kernels/qsgd/qsgd.h"
#include "compress_kernels/qsgd/tile_kernels.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::qsgd {

/// Small enough for the first-level cache.
struct Scratch {
  alignas(64) float x[kTileElements];
  alignas(64) float values[kTileElements];
  alignas(64) float sum[kTileElements];
  alignas(64) std::uint32_t codes[kTileElements];
  alignas(64) std::uint32_t levels[kTileElements];
  Scales scales;
};

/// Elements [first, first + count) of a chunk.
struct Span {
  std::size_t first = 0;
  std::size_t count = 0;
  bool is_whole() const { return count == kTileElements; }
  std::size_t rows() const { return (count + kRowElements - 1) / kRowElements; }
};

inline Span tile_at(std::size_t first, std::size_t count) {
  return {first, std::min(kTileElements, count - first)};
}

/// Calls visit(span) for each tile.
template <typename Visit>
void for_each_tile(std::size_t count, Visit&& visit) {
  for (std::size_t first = 0; first < count; first += kTileElements) visit(tile_at(first, count));
}

inline void pack_tile(const TileKernels& kernels, const std::uint32_t* numbers, Span span,
                      int width, std::byte* packed) {
  std::byte* bytes = packed + packed_bytes(span.first, width);
  if (span.is_whole()) {
    kernels.pack(numbers, width, bytes);
  } else {
    pack_plain(numbers, span.count, width, bytes);
  }
}

/// Adds the numbers of a tile to `numbers`, up to `largest`.
inline void unpack_add_tile(const TileKernels& kernels, const std::byte* packed, Span span,
                            int width, std::uint32_t largest, std::uint32_t* numbers) {
  const std::byte* bytes = packed + packed_bytes(span.first, width);
  if (span.is_whole()) {
    kernels.unpack_add(bytes, width, largest, numbers);
  } else {
    unpack_add_plain(bytes, span.count, width, largest, numbers);
  }
}

/// The numbers of a tile, then zeros.
inline void unpack_tile(const TileKernels& kernels, const std::byte* packed, Span span, int width,
                        std::uint32_t* numbers) {
  if (span.is_whole())
    return kernels.unpack(packed + packed_bytes(span.first, width), width, numbers);
  std::fill_n(numbers, kTileElements, 0u);
  unpack_add_tile(kernels, packed, span, width, ~0u, numbers);
}

/// Looks up the norms of a tile's rows.
inline void read_scales(const Parameters& parameters, const std::byte* norms,
                        std::size_t norm_block, Span span, Scales& scales) {
  const std::size_t rows_per_norm = std::min(norm_block / kRowElements, kRows);
  scales.any_is_lost = false;
  for (std::size_t row = 0; row < kRows; row += rows_per_norm) {
    const bool is_used = row < span.rows();
    const std::size_t index = (span.first + row * kRowElements) / norm_block;
    const auto norm = is_used ? core::load_element<std::uint16_t>(norms, index) : std::uint16_t{0};
    for (std::size_t j = 0; j < parameters.grids; ++j) {
      const GridScale scale = grid_scale(norm, parameters.steps[j]);
      if (!core::is_finite(scale.unit)) scales.any_is_lost = true;
      std::fill_n(scales.inverse[j] + row, rows_per_norm, scale.inverse);
      std::fill_n(scales.unit[j] + row, rows_per_norm, scale.unit);
    }
  }
}

/// The scratch memory's scales and levels as kernels take them.
inline Grids grids_of(const Parameters& parameters, const Scratch& scratch) {
  return {&scratch.scales, parameters.grids == 1 ? nullptr : scratch.levels, parameters.grids,
          parameters.steps[0]};
}

/// Reads scales and levels of a tile into the scratch memory.
inline void read_grids(const Parameters& parameters, const TileKernels& kernels, const Form& form,
                       Span span, Scratch& scratch) {
  read_scales(parameters, form.norms, form.norm_block, span, scratch.scales);
  if (parameters.grids == 1) return;
  unpack_tile(kernels, form.levels, span, level_bits(parameters), scratch.levels);
}

/// Writes the norms of the tile's blocks.
inline void write_norms(const Parameters& parameters, const TileKernels& kernels, const float* x,
                        Span span, std::byte* norms) {
  alignas(64) std::uint32_t magnitudes[kRows];
  kernels.measure(x, magnitudes);
  const std::size_t rows_per_norm = parameters.block / kRowElements;
  for (std::size_t row = 0; row < span.rows(); row += rows_per_norm) {
    const std::uint32_t largest =
        *std::max_element(magnitudes + row, magnitudes + row + rows_per_norm);
    core::store_element(norms, (span.first + row * kRowElements) / parameters.block,
                        norm_of_magnitude(largest));
  }
}

/// True if the row's values decode to NaN.
inline bool is_lost(const Scales& scales, std::size_t row) {
  return !core::is_finite(scales.unit[0][row]);
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_WALK_H_
