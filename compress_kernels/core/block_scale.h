// One scale per block: how the `uniform` and `minmax` grids turn the extremes of a block into the
// numbers that its codes are multiplied with. Every function is exact arithmetic on single values,
// so that each instruction set makes the same bits.
#ifndef COMPRESS_KERNELS_CORE_BLOCK_SCALE_H_
#define COMPRESS_KERNELS_CORE_BLOCK_SCALE_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"

namespace ringpress::compress_kernels::core {

/// Blocks whose extent is below 2^-100 are encoded as constant: reciprocals and steps of all other
/// blocks are normal numbers, whatever the host program does to the handling of subnormal ones.
inline constexpr std::uint32_t kExtentFloorBits = 27u << 23;
/// minmax covers [-2^126, 2^126]; values beyond saturate. Differences then never overflow.
inline constexpr float kMinMaxLimit = 8.507059173023462e37f;

inline constexpr std::uint16_t kBfloat16Nan = 0x7FC0;
inline constexpr std::uint32_t kLargestBfloat16 = 0x7F7F;
/// The largest bfloat16 below 2^127.
inline constexpr std::uint32_t kLargestOneBitScale = 0x7EFF;

/// Smallest bfloat16 that is not below a finite magnitude; the largest finite one at the very top.
RINGPRESS_HOST_DEVICE inline std::uint16_t round_up_to_bfloat16(std::uint32_t magnitude) {
  const std::uint32_t rounded = (magnitude + 0xFFFFu) >> 16;
  return static_cast<std::uint16_t>(rounded < kLargestBfloat16 ? rounded : kLargestBfloat16);
}

/// Codes of the `uniform` grid run from 0 to 2 * levels, for 2 bits and more.
RINGPRESS_HOST_DEVICE inline int uniform_levels(int bits) {
  return (1 << (bits - 1)) - 1;
}
/// Codes of the `minmax` grid run from 0 to this.
RINGPRESS_HOST_DEVICE inline int minmax_levels(int bits) {
  return (1 << bits) - 1;
}

/// What the quantiser needs of a block. Zero `inverse` and `unit` make a constant block, a NaN
/// `unit` a non-finite one.
struct BlockScale {
  float low = 0;                  // Value of code 0; minmax only.
  std::uint16_t stored_unit = 0;  // bfloat16, as it stands in the wire bytes.
  float inverse = 0;              // Multiplies values (minmax: minus low) before rounding.
};

/// Value of one step of the grid, from the stored bfloat16.
RINGPRESS_HOST_DEVICE inline float uniform_unit(std::uint16_t stored, int bits) {
  const float scale = widen(Bfloat16{stored});
  return bits == 1 ? scale : scale / static_cast<float>(uniform_levels(bits));
}
RINGPRESS_HOST_DEVICE inline float minmax_unit(std::uint16_t stored) {
  return widen(Bfloat16{stored});
}

/// `uniform` with 2 bits and more: the scale is the largest magnitude, rounded up.
RINGPRESS_HOST_DEVICE inline BlockScale scale_from_magnitude(std::uint32_t largest, int bits) {
  BlockScale scale;
  if (largest < kExtentFloorBits) return scale;
  scale.stored_unit = round_up_to_bfloat16(largest);
  scale.inverse = static_cast<float>(uniform_levels(bits)) / widen(Bfloat16{scale.stored_unit});
  return scale;
}

/// Codes of up to this many bits may be stored with the scale that fits them best.
inline constexpr int kMostFittedBits = 6;

/// From values of this size on, floats are the multiples of 2^(2 bits - 16). Sums of products of
/// up to 1024 codes and values in steps, rounded to such multiples, are exact: below 2^24 of them.
/// So it does not matter in which order they are added, nor how often products are rounded.
RINGPRESS_HOST_DEVICE constexpr float fit_rounding(int bits) {
  return 1.5f * static_cast<float>(1 << (7 + 2 * bits));
}

/// What the scale of least squares is made of: sums over a block.
struct FitSums {
  float products = 0;  // Of codes and values in steps.
  float squares = 0;   // Of codes.
};

/// `y`: a value in steps, whose code is the nearest integer. `rounding`: see fit_rounding().
RINGPRESS_HOST_DEVICE inline void add_to_fit(float y, float rounding, FitSums* sums) {
  const float code = round_to_even(y);
  sums->products = add_exact_product((y + rounding) - rounding, code, sums->products);
  sums->squares = add_exact_product(code, code, sums->squares);
}

/// The scale with which the codes come closest to the block's values, rounded to nearest. `stored`:
/// the finite one that the codes were made with.
RINGPRESS_HOST_DEVICE inline std::uint16_t fitted_unit(std::uint16_t stored, const FitSums& sums) {
  // Without any code but zero the scale was zero.
  const float squares = sums.squares < 1.0f ? 1.0f : sums.squares;
  const float scale = widen(Bfloat16{stored}) * (sums.products / squares);
  const std::uint32_t rounded = narrow<Bfloat16>(scale).bits;
  return static_cast<std::uint16_t>(rounded < kLargestBfloat16 ? rounded : kLargestBfloat16);
}

/// Lanes of the sum of magnitudes that the one-bit codec takes: element i goes to lane i mod 16.
inline constexpr std::size_t kSumLanes = 16;

/// Adds the lanes pairwise: 8 apart, 4 apart, 2 apart, neighbours. Overwrites `lanes`.
RINGPRESS_HOST_DEVICE inline float sum_lanes(float* lanes) {
  for (std::size_t distance = kSumLanes / 2; distance > 0; distance /= 2) {
    for (std::size_t i = 0; i < distance; ++i) lanes[i] += lanes[i + distance];
  }
  return lanes[0];
}

/// One bit, nearest: the scale is the mean magnitude, rounded to nearest. `scaled_sum` is the sum
/// of magnitudes, each divided by `block` first so that it cannot overflow; `count` of them are
/// there.
RINGPRESS_HOST_DEVICE inline BlockScale scale_from_mean(std::uint32_t largest, float scaled_sum,
                                                        std::size_t block, std::size_t count) {
  BlockScale scale;
  if (largest < kExtentFloorBits) return scale;
  const float mean = scaled_sum * (static_cast<float>(block) / static_cast<float>(count));
  const std::uint32_t stored = narrow<Bfloat16>(mean).bits;
  scale.stored_unit =
      static_cast<std::uint16_t>(stored < kLargestBfloat16 ? stored : kLargestBfloat16);
  return scale;
}

/// One bit, stochastic: the scale is the largest magnitude, at most the largest bfloat16 below
/// 2^127 so that value minus decoded value cannot overflow. A value at +-scale always gets that
/// sign.
RINGPRESS_HOST_DEVICE inline BlockScale scale_from_magnitude_one_bit(std::uint32_t largest) {
  BlockScale scale;
  if (largest < kExtentFloorBits) return scale;
  const std::uint32_t stored = round_up_to_bfloat16(largest);
  scale.stored_unit =
      static_cast<std::uint16_t>(stored < kLargestOneBitScale ? stored : kLargestOneBitScale);
  scale.inverse = 0.5f / widen(Bfloat16{scale.stored_unit});
  return scale;
}

RINGPRESS_HOST_DEVICE inline float clamp_to_minmax_limit(float value) {
  if (value < -kMinMaxLimit) return -kMinMaxLimit;
  return value > kMinMaxLimit ? kMinMaxLimit : value;
}

/// `minmax`: the step is the range divided by the number of steps, rounded up.
RINGPRESS_HOST_DEVICE inline BlockScale scale_from_range(float minimum, float maximum, int bits) {
  BlockScale scale;
  // Adding zero turns -0 into +0: which zero is found first must not matter.
  scale.low = clamp_to_minmax_limit(minimum) + 0.0f;
  const float range = clamp_to_minmax_limit(maximum) - scale.low;
  if (magnitude_bits(range) < kExtentFloorBits) return scale;
  scale.stored_unit =
      round_up_to_bfloat16(bits_of(range / static_cast<float>(minmax_levels(bits))));
  scale.inverse = 1.0f / minmax_unit(scale.stored_unit);
  return scale;
}

/// A block that contains NaN or an infinity decodes to NaN throughout.
RINGPRESS_HOST_DEVICE inline BlockScale scale_of_nonfinite_block() {
  BlockScale scale;
  scale.low = float_of(kCanonicalNanBits);
  scale.stored_unit = kBfloat16Nan;
  return scale;
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_BLOCK_SCALE_H_
