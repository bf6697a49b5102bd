// From the values of one tile to codes and back, in one form. The lanes of a warp work on it
// together.
#ifndef COMPRESS_KERNELS_QSGD_TILE_CODER_CUH_
#define COMPRESS_KERNELS_QSGD_TILE_CODER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/qsgd/dither.h"
#include "compress_kernels/qsgd/grid.h"
#include "compress_kernels/qsgd/qsgd.h"
#include "compress_kernels/qsgd/tile_pack.cuh"
#include "compress_kernels/qsgd/tile_rows.cuh"
#include "compress_kernels/qsgd/tile_scales.cuh"

namespace ringpress::compress_kernels::qsgd {

/// The random bits of a lane's values.
class LaneDither {
 public:
  RINGPRESS_DEVICE LaneDither(const RandomKey& random, const LaneTile& tile, float bias)
      : bias_(bias) {
    const Dither dither = dither_of_tile(random, tile.first, bias);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kBlocks; ++i) {
      words_[i] = dither_words(dither, tile.lane + i * kPackLanes);
    }
  }

  RINGPRESS_DEVICE float bias() const { return bias_; }
  RINGPRESS_DEVICE std::uint32_t byte(unsigned row) const {
    return byte_of_row(words_[row / kDitherRows], row);
  }

 private:
  static constexpr unsigned kBlocks = kRows / kDitherRows;
  const float bias_;
  philox4x32_ctr_t words_[kBlocks];
};

/// Words of the warp's memory that a TileCoder uses.
inline constexpr unsigned kCoderMemoryWords = TileScales::kMemoryWords + kPackMemoryWords;

template <typename Simt, typename T>
class TileCoder {
 public:
  /// What it is made of must outlive it.
  RINGPRESS_DEVICE TileCoder(const Simt& simt, const Parameters& parameters, const Form& form)
      : simt_(simt),
        parameters_(parameters),
        form_(form),
        memory_(static_cast<std::uint32_t*>(simt.warp_memory())),
        scales_(parameters, memory_) {}

  RINGPRESS_DEVICE const TileScales& scales() const { return scales_; }
  /// For pack_tile().
  RINGPRESS_DEVICE std::uint32_t* pack_memory() const { return memory_ + TileScales::kMemoryWords; }

  /// Reads scales and levels of the form.
  RINGPRESS_DEVICE LaneLevels read_grids(const LaneTile& tile) const {
    scales_.put(simt_, tile.lane, load_norm(simt_, tile, form_));
    LaneLevels levels(parameters_);
    if (parameters_.grids > 1) {
      unpack_tile(simt_, tile, level_bits(parameters_), form_.levels,
                  [&](unsigned row, std::uint32_t level) { levels.put(row, level); });
    }
    return levels;
  }

  /// Finds scales and levels of what stands alone, and writes them: `wire` has this form.
  RINGPRESS_DEVICE LaneLevels write_grids(const LaneTile& tile, const LaneValues& x,
                                          std::size_t count, std::byte* wire) const {
    const std::uint16_t norm = measure_block(simt_, tile.lane, parameters_.block, x);
    store_norms(simt_, tile, parameters_.block, norm, wire);
    scales_.put(simt_, tile.lane, norm);
    return write_levels(tile, x, wire + norm_bytes(parameters_, count));
  }

  /// Chooses levels by the scales, and writes them.
  RINGPRESS_DEVICE LaneLevels write_levels(const LaneTile& tile, const LaneValues& x,
                                           std::byte* packed) const {
    LaneLevels levels(parameters_);
    if (parameters_.grids == 1) return levels;
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) levels.put(row, scales_.choose_level(row, x[row]));
    pack_tile(simt_, tile, level_bits(parameters_), packed, pack_memory(),
              [&](unsigned row) { return levels.packed(row); });
    return levels;
  }

  /// codes = codes of x, plus steps; updates the residual.
  RINGPRESS_DEVICE void quantise(const LaneTile& tile, const LaneValues& x,
                                 const LaneLevels& levels, const core::EncodeOutput& output,
                                 float bias, LaneNumbers& codes) const {
    if (parameters_.is_stochastic) {
      const LaneDither dither(output.random, tile, bias);
      quantise_rows(tile, x, levels, output.residual, codes,
                    [&](unsigned row, float value, float inverse) {
                      return stochastic_code(value, inverse, parameters_.steps[0], dither.bias(),
                                             dither.byte(row));
                    });
    } else {
      quantise_rows(tile, x, levels, output.residual, codes,
                    [&](unsigned, float value, float inverse) {
                      return truncated_code(value, inverse, parameters_.steps[0]);
                    });
    }
  }

  RINGPRESS_DEVICE void pack(const LaneTile& tile, const LaneNumbers& codes,
                             std::byte* wire) const {
    pack_tile(simt_, tile, form_.width, wire + form_.codes_offset, pack_memory(),
              [&](unsigned row) { return number_at(codes, row); });
  }
  RINGPRESS_DEVICE void unpack(const LaneTile& tile, const std::byte* wire,
                               LaneNumbers& codes) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) codes[row] = 0;
    unpack_add(simt_, tile, form_.width, wire + form_.codes_offset, ~0u, codes);
  }

  /// The value of what has this form.
  RINGPRESS_DEVICE float value_of(unsigned row, const LaneLevels& levels,
                                  const LaneNumbers& codes) const {
    return value_of_code(codes[row], form_.offset, scales_.at(row, levels.at(row)).unit);
  }

  /// Writes the values, divided.
  RINGPRESS_DEVICE void store_values(const LaneTile& tile, const LaneLevels& levels,
                                     const LaneNumbers& codes, std::size_t divisor,
                                     void* values) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) {
      const float value = value_of(row, levels, codes);
      if (!tile.has(row)) continue;
      store_value<T>(simt_, values, tile.index(row),
                     divisor == 1 ? value : core::divide(value, divisor));
    }
  }

 private:
  /// code_of(row, value, inverse)
  template <typename CodeOf>
  RINGPRESS_DEVICE void quantise_rows(const LaneTile& tile, const LaneValues& x,
                                      const LaneLevels& levels, float* residual, LaneNumbers& codes,
                                      CodeOf&& code_of) const {
    RINGPRESS_UNROLL
    for (unsigned row = 0; row < kRows; ++row) {
      const GridScale scale = scales_.at(row, levels.at(row));
      // What decodes to NaN has code 0 and leaves its residual alone.
      const bool is_lost = !core::is_finite(scale.unit);
      codes[row] = code_of(row, is_lost ? 0.0f : x[row], scale.inverse);
      if (residual == nullptr || is_lost || !tile.has(row)) continue;
      const float own = value_of_code(codes[row], parameters_.steps[0], scale.unit);
      store_value<float>(simt_, residual, tile.index(row), x[row] - own);
    }
  }

  const Simt& simt_;
  const Parameters& parameters_;
  const Form& form_;
  std::uint32_t* const memory_;
  const TileScales scales_;
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TILE_CODER_CUH_
