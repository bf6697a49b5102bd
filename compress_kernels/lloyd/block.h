// One block of qB:grid=lloyd: values to scale and codes, and back. See lloyd.h for the arithmetic.
#ifndef COMPRESS_KERNELS_LLOYD_BLOCK_H_
#define COMPRESS_KERNELS_LLOYD_BLOCK_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/lloyd/levels.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/lloyd/rotation.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::lloyd {

/// Sums of squares outside of these could have lost bits to overflow or underflow.
inline constexpr float kSmallestPower = 0x1p-80f;
inline constexpr float kLargestPower = 0x1p100f;

RINGPRESS_HOST_DEVICE inline float saturate(float value, DType dtype) {
  float limit = std::numeric_limits<float>::max();
  if (dtype == DType::kFloat16) limit = 65504.0f;
  if (dtype == DType::kBfloat16) limit = core::float_of(core::kLargestBfloat16 << 16);
  if (value > limit) return limit;
  return value < -limit ? -limit : value;  // NaN is neither.
}

/// The value that a decoded one becomes in the element type. One rank's finite values stay finite;
/// sums overflow as they do without compression, so that loss scalers see it.
RINGPRESS_HOST_DEVICE inline float as_element(float value, DType dtype, Contributions form) {
  return form.summed > 1 ? value : saturate(value, dtype);
}

/// Lanes of the sums over a block: element i goes to lane i mod 256. A warp adds within its lanes
/// first, and a host in registers.
inline constexpr std::size_t kBlockLanes = 256;
inline constexpr std::size_t kLaneGroup = 8;

/// Adds lanes until one is left: neighbours first, until there is a sum for each group of them,
/// then the halves of what is left. `count`: a power of two from 8 on. Overwrites `lanes`.
RINGPRESS_HOST_DEVICE inline float sum_lane_groups(float* groups, std::size_t count) {
  for (std::size_t half = count / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) groups[i] += groups[i + half];
  }
  return groups[0];
}
RINGPRESS_HOST_DEVICE inline float sum_lanes(float* lanes, std::size_t count) {
  const std::size_t groups = count / kLaneGroup;
  for (; count > groups; count /= 2) {
    for (std::size_t i = 0; i < count / 2; ++i) lanes[i] = lanes[2 * i] + lanes[2 * i + 1];
  }
  return sum_lane_groups(lanes, groups);
}

/// Sum over i of term(i).
template <typename Term>
RINGPRESS_HOST_DEVICE inline float sum_block(std::size_t count, Term&& term) {
  float lanes[kBlockLanes] = {};
  for (std::size_t i = 0; i < count; ++i) lanes[i % kBlockLanes] += term(i);
  return sum_lanes(lanes, kBlockLanes);
}

/// How often a block of `count` values is rotated. Unbiased rounding rotates whole blocks twice,
/// for one rotation leaves a bias on outliers, and partial blocks not at all (dither_block()).
RINGPRESS_HOST_DEVICE inline int rotations(const LloydParameters& parameters, std::size_t count) {
  if (!parameters.rotates) return 0;
  if (!parameters.unbiased) return 1;
  return count == parameters.block ? 2 : 0;
}

/// What the rotations multiply squared lengths with: P of lloyd.h.
RINGPRESS_HOST_DEVICE inline float rotation_gain(int rounds, std::size_t count) {
  float gain = 1;
  for (int round = 0; round < rounds; ++round) {
    gain *= static_cast<float>(largest_part(count));
  }
  return gain;
}

/// Transforms every part of a block.
RINGPRESS_HOST_DEVICE inline void transform_parts(float* values, std::size_t count) {
  for (std::size_t first = 0; first < count;) {
    const std::size_t size = largest_part(count - first);
    hadamard(values + first, size);
    first += size;
  }
}

/// The weight w of element i's part: what makes its values as large as those of the largest part.
RINGPRESS_HOST_DEVICE inline float weight_of(std::size_t index, std::size_t count) {
  std::size_t first = 0;
  std::size_t size = largest_part(count);
  const std::size_t largest = size;
  while (index >= first + size) {
    first += size;
    size = largest_part(count - first);
  }
  return std::sqrt(static_cast<float>(largest / size));
}

RINGPRESS_HOST_DEVICE inline void apply_signs(const Signs& signs, float* values,
                                              std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (signs.is_minus(i)) values[i] = -values[i];
  }
}

/// y = w H(d x factor), twice for two rotations. x and y may be the same.
RINGPRESS_HOST_DEVICE inline void rotate(int rounds, std::uint64_t seed, float factor,
                                         const float* x, std::size_t count, float* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] * factor;
  for (int round = 0; round < rounds; ++round) {
    apply_signs(Signs(seed, round), y, count);
    transform_parts(y, count);
  }
  if (rounds == 0) return;
  for (std::size_t i = 0; i < count; ++i) y[i] *= weight_of(i, count);
}

/// The other way: x = d (unit w) H(y). Finite values stay so.
RINGPRESS_HOST_DEVICE inline void rotate_back(int rounds, std::uint64_t seed, float unit,
                                              float* values, std::size_t count) {
  for (int round = rounds - 1; round >= 0; --round) {
    transform_parts(values, count);
    if (round > 0) apply_signs(Signs(seed, round), values, count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const float weighted = rounds == 0 ? unit : unit * weight_of(i, count);
    values[i] = saturate(values[i] * weighted, DType::kFloat32);
  }
  if (rounds > 0) apply_signs(Signs(seed, 0), values, count);
}

/// What is known of a block before its values are quantised.
struct Power {
  float factor = 1;  // A power of two that the values are multiplied with.
  float sum = 0;     // Of the squares of the rotated values.
};

/// 2^-e for values whose largest magnitude is in [2^e, 2^(e+1)); at the very top one less.
RINGPRESS_HOST_DEVICE inline float normalising_factor(std::uint32_t largest_magnitude) {
  const std::uint32_t exponent = std::min(largest_magnitude >> 23, 253u);
  return core::float_of((254u - exponent) << 23);
}

/// Fills `y` with the rotated values. Zero sum: a block of zeros; NaN: a non-finite block.
RINGPRESS_HOST_DEVICE inline Power rotate_and_measure(int rounds, std::uint64_t seed,
                                                      const float* x, std::size_t count, float* y) {
  Power power;
  const auto square = [y](std::size_t i) { return y[i] * y[i]; };
  rotate(rounds, seed, 1, x, count, y);
  power.sum = sum_block(count, square);
  if (power.sum >= kSmallestPower && power.sum <= kLargestPower) return power;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, core::magnitude_bits(x[i]));
  if (largest >= core::kInfinityBits) {
    power.sum = core::float_of(core::kCanonicalNanBits);
    return power;
  }
  power.sum = 0;
  if (largest < core::kExtentFloorBits) return power;
  power.factor = normalising_factor(largest);
  rotate(rounds, seed, power.factor, x, count, y);
  power.sum = sum_block(count, square);
  return power;
}

/// The bfloat16 on the wire for a scale of the rotated values.
RINGPRESS_HOST_DEVICE inline std::uint16_t stored_scale(float scale, const Power& power,
                                                        float gain) {
  const std::uint32_t bits = core::narrow<core::Bfloat16>(scale / gain / power.factor).bits;
  return static_cast<std::uint16_t>(bits < core::kLargestBfloat16 ? bits : core::kLargestBfloat16);
}

/// What names the random bits of a block.
struct BlockRandom {
  std::uint64_t seed = kSharedSeed;  // Of its rotation.
  RandomKey key;                     // Of the chunk; for dither_block().
  std::size_t first = 0;             // Element of the chunk that the block begins with.
};

/// A partial block with unbiased rounding: each value becomes one of the two levels next to it, at
/// random, so that its mean is the value. The largest level stands for the largest magnitude.
inline std::uint16_t dither_block(const LloydParameters& parameters, const BlockRandom& random,
                                  const float* x, std::size_t count, std::uint32_t* codes) {
  std::fill(codes, codes + count, 0u);
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, core::magnitude_bits(x[i]));
  if (largest >= core::kInfinityBits) return core::kBfloat16Nan;
  if (largest < core::kExtentFloorBits) return 0;
  const LevelTable& table = level_table(parameters.bits);
  const std::uint32_t magnitudes = 1u << (parameters.bits - 1);
  const float top = level_value(table, magnitudes - 1);
  const std::uint16_t stored =
      core::round_up_to_bfloat16(core::bits_of(core::float_of(largest) / top));
  const float unit = core::widen(core::Bfloat16{stored});
  for (std::size_t i = 0; i < count; ++i) {
    const float magnitude = core::float_of(core::magnitude_bits(x[i])) / unit;
    std::uint32_t upper = 0;
    while (upper < magnitudes - 1 && level_value(table, upper) < magnitude) ++upper;
    const float high = level_value(table, upper);
    const float low = upper == 0 ? -high : level_value(table, upper - 1);
    const float u = core::unit_interval(core::random_half(random.key, random.first + i));
    const bool is_high = (magnitude - low) > u * (high - low);
    const bool crosses_zero = !is_high && upper == 0;
    const bool is_minus = (core::bits_of(x[i]) >> 31 != 0) != crosses_zero;
    codes[i] = code_of(parameters.bits, is_high || upper == 0 ? upper : upper - 1, is_minus);
  }
  return stored;
}

/// Gives the stored scale; `codes` gets `count` codes. x is finite or not.
inline std::uint16_t encode_block(const LloydParameters& parameters, const BlockRandom& random,
                                  const float* x, std::size_t count, std::uint32_t* codes) {
  if (parameters.unbiased && count < parameters.block) {
    return dither_block(parameters, random, x, count, codes);
  }
  float y[kLargestLloydBlock];
  float levels[kLargestLloydBlock];
  const int rounds = rotations(parameters, count);
  const Power power = rotate_and_measure(rounds, random.seed, x, count, y);
  if (!(power.sum > 0)) {
    std::fill(codes, codes + count, 0u);
    return power.sum == 0 ? 0 : core::kBfloat16Nan;
  }
  const float deviation = std::sqrt(power.sum / static_cast<float>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const SignedLevel level = nearest_signed_level(parameters.bits, y[i], deviation);
    codes[i] = level.code;
    levels[i] = level.value;
  }
  const float product = sum_block(count, [&](std::size_t i) { return y[i] * levels[i]; });
  const float square = sum_block(count, [&](std::size_t i) { return levels[i] * levels[i]; });
  const float scale = parameters.unbiased ? power.sum / product : product / square;
  return stored_scale(scale, power, rotation_gain(rounds, count));
}

/// False, and NaN throughout, for a non-finite block.
inline bool decode_block(const LloydParameters& parameters, std::uint64_t seed,
                         std::uint16_t stored, const std::uint32_t* codes, std::size_t count,
                         float* values) {
  const float unit = core::widen(core::Bfloat16{stored});
  if (!core::is_finite(unit)) {
    std::fill(values, values + count, core::float_of(core::kCanonicalNanBits));
    return false;
  }
  if (unit == 0) {  // Without the signs of the rotation.
    std::fill(values, values + count, 0.0f);
    return true;
  }
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = signed_level_value(parameters.bits, codes[i]);
  }
  rotate_back(rotations(parameters, count), seed, unit, values, count);
  return true;
}

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_BLOCK_H_
