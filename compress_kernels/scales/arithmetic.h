// From results to squares, from squares to codes, and what codes gain: what hosts and kernels do
// with single values. Sums over a block are taken in kSumLanes lanes: value i is added to lane i %
// kSumLanes, and at the end the lanes are added up in order.
#ifndef COMPRESS_KERNELS_SCALES_ARITHMETIC_H_
#define COMPRESS_KERNELS_SCALES_ARITHMETIC_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels::scales {

inline constexpr std::size_t kSumLanes = 16;

inline constexpr float kScaleFloor = 0.01f;
// The bits of that.
inline constexpr std::int32_t kFloorBits = 0x3C23D70A;
// What is smaller counts as 0: arithmetic on numbers below the normal ones is not the same in all
// threads.
inline constexpr float kSmallestSquare = 0x1p-100f;
inline constexpr float kLargestFloat = 0x1.fffffep127f;
// What encoding a result loses has to become smaller by as much at least.
inline constexpr double kHelps = 0.9;

/// `ratio`: v / mean v of the block. 3/8 of the logarithm, in halves of octaves.
RINGPRESS_HOST_DEVICE inline std::uint8_t code_of(float ratio) {
  const auto bits = static_cast<std::int32_t>(core::bits_of(ratio + kScaleFloor));
  const std::int32_t octaves = bits - kFloorBits;
  const std::int32_t code = ((octaves >> 2) * 3 + (1 << 22)) >> 23;
  const std::int32_t largest = kLargestScale;
  return static_cast<std::uint8_t>(code < largest ? code : largest);
}

/// A square that is no number leaves v as it was.
RINGPRESS_HOST_DEVICE inline float next_square(float v, float x, float weight) {
  const float square = x * x;
  const float now = square <= kLargestFloat ? square : v;
  const float next = v + (now - v) * weight;
  return next < kSmallestSquare ? 0.0f : next;
}

/// 1 / the mean of a block's squares. One that is zero so far, or nearly infinite, has one scale.
RINGPRESS_HOST_DEVICE inline float inverse_of_mean(float sum, std::size_t count) {
  const bool has_mean = sum > 0 && sum <= kLargestFloat;
  return has_mean ? static_cast<float>(count) / sum : 0.0f;
}

/// Of values, with and without codes: the largest, and as sums the scales and their reciprocals.
struct BlockExtent {
  float plain = 0;
  float scaled = 0;
  float scales = 0;
  float inverses = 0;
};

/// (A NaN is passed over.)
RINGPRESS_HOST_DEVICE inline void add_to_extent(float magnitude, float scale, float inverse,
                                                BlockExtent* extent) {
  const float divided = magnitude * inverse;
  extent->plain = magnitude > extent->plain ? magnitude : extent->plain;
  extent->scaled = divided > extent->scaled ? divided : extent->scaled;
  extent->scales += scale;
  extent->inverses += inverse;
}

/// Of one of a block's lanes, to those before it.
RINGPRESS_HOST_DEVICE inline void add_lane(const BlockExtent& lane, BlockExtent* block) {
  block->plain = lane.plain > block->plain ? lane.plain : block->plain;
  block->scaled = lane.scaled > block->scaled ? lane.scaled : block->scaled;
  block->scales += lane.scales;
  block->inverses += lane.inverses;
}

/// What a block adds to ScaleErrors.
struct BlockErrors {
  double plain = 0;
  double scaled = 0;
};
RINGPRESS_HOST_DEVICE inline BlockErrors errors_of(const BlockExtent& extent) {
  if (!(extent.plain <= kLargestFloat)) return {};
  const auto plain = static_cast<double>(extent.plain);
  const auto scaled = static_cast<double>(extent.scaled);
  return {plain * plain * static_cast<double>(extent.inverses),
          scaled * scaled * static_cast<double>(extent.scales)};
}

RINGPRESS_HOST_DEVICE inline bool is_helped(double plain, double scaled) {
  return scaled < kHelps * plain;
}

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_ARITHMETIC_H_
