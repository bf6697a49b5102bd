// Levels and codes of qB:grid=lloyd in a kernel: levels.h with its table in the warp's memory.
#ifndef COMPRESS_KERNELS_LLOYD_TILE_LEVELS_CUH_
#define COMPRESS_KERNELS_LLOYD_TILE_LEVELS_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/lloyd/levels.h"

namespace ringpress::compress_kernels::lloyd {

/// One width, as a warp sees it.
class TileLevels {
 public:
  static constexpr unsigned kWords = 4 * kSegments;

  /// `memory`: kWords of the warp's, which lane 0 to 31 fill; to be read after the warp has met.
  RINGPRESS_DEVICE TileLevels(int bits, const LevelTable& table, unsigned lane, float* memory)
      : starts_(memory), bits_(bits), cell_bits_(table.cell_bits), magnitudes_(1u << (bits - 1)) {
    const unsigned column = lane % kSegments;
    memory[lane] = lane < kSegments       ? table.starts[column]
                   : lane < 2 * kSegments ? table.lowest_levels[column]
                   : lane < 3 * kSegments ? table.steps[column]
                                          : table.inverse_steps[column];
  }

  /// What values of one deviation are compared with.
  struct Measure {
    std::uint32_t starts[kSegments];  // Bits of where segments 1 to 7 begin; 0 is not looked at.
    float inverse;                    // Of the deviation; not looked at up to kMostCellBits.
  };
  RINGPRESS_DEVICE Measure measure(float deviation) const {
    Measure measure;
    const float factor = bits_ > kMostCellBits ? 1.0f : deviation;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kSegments; ++k) measure.starts[k] = core::bits_of(starts_[k] * factor);
    measure.inverse = 1.0f / deviation;
    return measure;
  }

  /// nearest_signed_level().
  RINGPRESS_DEVICE SignedLevel nearest(const Measure& measure, float value) const {
    const std::uint32_t magnitude = core::magnitude_bits(value);
    if (bits_ > kMostCellBits) return nearest_of_many(measure, value);
    // A negative value at the edge of a segment belongs to the one below it.
    const bool is_minus = value < 0;
    const std::uint32_t segment = segment_of(measure, magnitude + (is_minus ? 0 : 1));
    const float level = lowest(segment);
    return {code_of(bits_, segment, is_minus), is_minus ? -level : level};
  }

  /// signed_level_value().
  RINGPRESS_DEVICE float value_of(std::uint32_t code) const {
    const bool is_minus = code < magnitudes_;
    const float value = magnitude_of(is_minus ? magnitudes_ - 1 - code : code - magnitudes_);
    return is_minus ? -value : value;
  }

  /// level_value().
  RINGPRESS_DEVICE float magnitude_of(std::uint32_t index) const {
    const std::uint32_t segment = index >> cell_bits_;
    const std::uint32_t cell = index & ((1u << cell_bits_) - 1u);
    return lowest(segment) + static_cast<float>(cell) * step(segment);
  }

  RINGPRESS_DEVICE std::uint32_t magnitudes() const { return magnitudes_; }

 private:
  RINGPRESS_DEVICE float lowest(std::uint32_t segment) const {
    return starts_[kSegments + segment];
  }
  RINGPRESS_DEVICE float step(std::uint32_t segment) const {
    return starts_[2 * kSegments + segment];
  }

  /// How many of the seven starts are below `key`: they rise.
  RINGPRESS_DEVICE static std::uint32_t segment_of(const Measure& measure, std::uint32_t key) {
    const std::uint32_t(&s)[kSegments] = measure.starts;
    const bool high = key > s[4];
    const bool middle = key > (high ? s[6] : s[2]);
    const bool low = key > (high ? (middle ? s[7] : s[5]) : (middle ? s[3] : s[1]));
    return (high ? 4u : 0u) + (middle ? 2u : 0u) + (low ? 1u : 0u);
  }

  /// nearest_level(), with a sign.
  RINGPRESS_DEVICE SignedLevel nearest_of_many(const Measure& measure, float value) const {
    const float magnitude = core::float_of(core::magnitude_bits(value)) * measure.inverse;
    const std::uint32_t segment = segment_of(measure, core::bits_of(magnitude) + 1);
    const float offset = (magnitude - starts_[segment]) * starts_[3 * kSegments + segment];
    const std::uint32_t last = (1u << cell_bits_) - 1u;
    std::uint32_t cell = static_cast<std::uint32_t>(offset);
    cell = cell < last ? cell : last;
    const bool is_minus = core::bits_of(value) >> 31 != 0;
    const float level = lowest(segment) + static_cast<float>(cell) * step(segment);
    return {code_of(bits_, (segment << cell_bits_) + cell, is_minus), is_minus ? -level : level};
  }

  const float* const starts_;
  const int bits_;
  const int cell_bits_;
  const std::uint32_t magnitudes_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_TILE_LEVELS_CUH_
