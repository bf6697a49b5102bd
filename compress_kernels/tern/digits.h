// Scales, random bits and digits of tern, one value at a time. See tern.h for the arithmetic.
//
// Random bits of a tile whose first value is number t of the tensor:
//
//   value 128 p + 32 w + l  (p < 8, w < 4, l < 32) takes of Philox block number 32 t + g,
//   g = 16 (p / 4) + l / 2, as philox.h defines it, word p mod 4, rotated right by 4 w bits:
//   the lowest 14 bits of its half l mod 2, low half first.
#ifndef COMPRESS_KERNELS_TERN_DIGITS_H_
#define COMPRESS_KERNELS_TERN_DIGITS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/tern/tern.h"

namespace ringpress::compress_kernels::tern {

inline constexpr int kFractionBits = 14;
inline constexpr int kOne = 1 << kFractionBits;
/// Philox blocks of a tile, numbered from kTileGroups times the number of its first value.
inline constexpr std::size_t kTileGroups = 32;
/// Values that share random bits, and how far apart they are.
inline constexpr std::size_t kSharing = 4;
inline constexpr std::size_t kSharingDistance = 32;
inline constexpr int kWindowDistance = 4;  // In bits.

/// The first Philox block of the tile that starts `first` elements after random.first_element.
RINGPRESS_HOST_DEVICE inline std::uint64_t first_group(const RandomKey& random, std::size_t first) {
  return (random.first_element + first) * kTileGroups;
}

/// The random bits of the value that takes this window of a word and this half of that.
RINGPRESS_HOST_DEVICE inline std::uint32_t fraction_of(std::uint32_t word, std::size_t window,
                                                       std::size_t half) {
  const int shift = kWindowDistance * static_cast<int>(window);
  const std::uint32_t rotated = shift == 0 ? word : (word >> shift) | (word << (32 - shift));
  return (rotated >> (16 * half)) & static_cast<std::uint32_t>(kOne - 1);
}

/// The random bits of value `index` of the tile that starts at `first`.
RINGPRESS_HOST_DEVICE inline std::uint32_t random_fraction(const RandomKey& random,
                                                           std::size_t first, std::size_t index) {
  const std::size_t part = index / (kSharing * kSharingDistance);
  const std::size_t window = index / kSharingDistance % kSharing;
  const std::size_t lane = index % kSharingDistance;
  const std::uint64_t group = first_group(random, first) + 16 * (part / 4) + lane / 2;
  const philox4x32_ctr_t words =
      philox4x32(core::philox_counter(random, group), core::philox_key(random));
  return fraction_of(words.v[part % 4], window, lane % 2);
}

/// A power of two that brings a magnitude into [1, 2); at the very top of float32 into [2, 4).
RINGPRESS_HOST_DEVICE inline float normalising_factor(std::uint32_t magnitude) {
  const std::uint32_t exponent = magnitude >> 23 < 253u ? magnitude >> 23 : 253u;
  return core::float_of((254u - exponent) << 23);
}

/// Bits of the scale before it is rounded up: the largest magnitude, or less by clipping.
/// `squares`: sum over the block of (x factor)^2, in the lanes of core::sum_lanes().
RINGPRESS_HOST_DEVICE inline std::uint32_t clipped_magnitude(std::uint32_t largest, float factor,
                                                             float squares, std::size_t count,
                                                             float clip) {
  const float limit = clip * std::sqrt(squares / static_cast<float>(count)) / factor;
  const std::uint32_t bits = core::bits_of(limit);
  return bits < largest ? bits : largest;
}

/// What the digits of a block are made with.
struct BlockScale {
  std::uint16_t stored = 0;
  float inverse = 0;    // 2^14 / scale; zero for a block of zeros.
  bool clamps = false;  // Values may exceed the scale.
};

RINGPRESS_HOST_DEVICE inline BlockScale scale_of(std::uint32_t magnitude) {
  BlockScale scale;
  if (magnitude >= core::kInfinityBits) {
    scale.stored = core::kBfloat16Nan;
  } else if (magnitude >= core::kExtentFloorBits) {
    scale.stored = core::round_up_to_bfloat16(magnitude);
    scale.inverse = static_cast<float>(kOne) / core::widen(core::Bfloat16{scale.stored});
    scale.clamps = magnitude > core::kLargestBfloat16 << 16;
  }
  return scale;
}

/// The scale of a block from its largest magnitude; squares() gives what clipped_magnitude() takes,
/// and is called only if that is needed.
template <typename Squares>
RINGPRESS_HOST_DEVICE inline BlockScale scale_of(std::uint32_t largest, float clip,
                                                 std::size_t count, Squares&& squares) {
  if (clip == 0 || largest < core::kExtentFloorBits || largest >= core::kInfinityBits) {
    return scale_of(largest);
  }
  const float factor = normalising_factor(largest);
  BlockScale scale = scale_of(clipped_magnitude(largest, factor, squares(factor), count, clip));
  scale.clamps = true;
  return scale;
}

RINGPRESS_HOST_DEVICE inline std::uint32_t digit_of(float x, const BlockScale& scale,
                                                    std::uint32_t random) {
  if (scale.stored == core::kBfloat16Nan) return 1;
  float y = x * scale.inverse;
  if (y > kOne) y = kOne;
  if (y < -kOne) y = -kOne;
  const int sum = static_cast<int>(core::round_to_even(y)) + kOne + static_cast<int>(random);
  return static_cast<std::uint32_t>(sum) >> kFractionBits;
}

/// Digit `place` of a byte.
RINGPRESS_HOST_DEVICE inline std::uint32_t read_digit(std::uint32_t byte, std::size_t place) {
  for (std::size_t k = 0; k < place; ++k) byte /= 3;
  return place + 1 < kDigitsPerByte ? byte % 3 : byte;
}

/// What a digit of that place is worth.
RINGPRESS_HOST_DEVICE inline std::uint32_t digit_weight(std::size_t place) {
  std::uint32_t weight = 1;
  for (std::size_t k = 0; k < place; ++k) weight *= 3;
  return weight;
}

RINGPRESS_HOST_DEVICE inline float value_of_digit(std::uint32_t digit, std::uint16_t stored) {
  return static_cast<float>(static_cast<int>(digit) - 1) * core::widen(core::Bfloat16{stored});
}

}  // namespace ringpress::compress_kernels::tern

#endif  // COMPRESS_KERNELS_TERN_DIGITS_H_
