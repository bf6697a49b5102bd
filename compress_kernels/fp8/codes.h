// Units and codes of fp8, one value at a time. See fp8.h for the arithmetic.
#ifndef COMPRESS_KERNELS_FP8_CODES_H_
#define COMPRESS_KERNELS_FP8_CODES_H_

#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/fp8/fp8.h"

namespace ringpress::compress_kernels::fp8 {

/// Blocks below 2^-94 become zeros.
inline constexpr std::uint32_t kSmallestBlockBits = 33u << 23;
/// NaN in both formats.
inline constexpr std::uint8_t kNanCode = 0x7F;
inline constexpr std::uint32_t kExponentMask = 0x7F800000u;

/// The numbers of a format.
template <Float8Format kFormat>
struct Format;

template <>
struct Format<Float8Format::kE4m3> {
  using Type = core::Float8e4m3;
  static constexpr int kMantissa = 3;           // Stored bits.
  static constexpr int kSmallestExponent = -6;  // Of normal numbers.
  static constexpr float kLargest = 448;
  /// The largest unit whose product with kLargest is finite, as float32 and as bfloat16.
  static constexpr std::uint16_t kLargestUnit = 0x7B11;  // 1.1328125 * 2^119
};

template <>
struct Format<Float8Format::kE5m2> {
  using Type = core::Float8e5m2;
  static constexpr int kMantissa = 2;
  static constexpr int kSmallestExponent = -14;
  static constexpr float kLargest = 57344;
  static constexpr std::uint16_t kLargestUnit = 0x7791;  // 1.1328125 * 2^112
};

/// The bfloat16 on the wire for a block with this largest finite magnitude.
template <Float8Format kFormat>
RINGPRESS_HOST_DEVICE inline std::uint16_t stored_unit(std::uint32_t magnitude) {
  if (magnitude < kSmallestBlockBits) return 0;
  const float unit = core::float_of(magnitude) * (1.0f / Format<kFormat>::kLargest);
  const std::uint16_t rounded = core::round_up_to_bfloat16(core::bits_of(unit));
  return rounded < Format<kFormat>::kLargestUnit ? rounded : Format<kFormat>::kLargestUnit;
}

/// What values are multiplied with before they are rounded; zero for a block of zeros.
RINGPRESS_HOST_DEVICE inline float inverse_unit(std::uint16_t stored) {
  return stored == 0 ? 0.0f : 1.0f / core::widen(core::Bfloat16{stored});
}

template <Float8Format kFormat>
RINGPRESS_HOST_DEVICE inline std::uint8_t nearest_code(float x, float inverse) {
  if (!core::is_finite(x)) return kNanCode;
  return core::narrow<typename Format<kFormat>::Type>(x * inverse).bits;
}

/// `u` is from core::unit_interval().
template <Float8Format kFormat>
RINGPRESS_HOST_DEVICE inline std::uint8_t stochastic_code(float x, float inverse, float u) {
  using F = Format<kFormat>;
  if (!core::is_finite(x)) return kNanCode;
  constexpr std::uint32_t kSmallest = static_cast<std::uint32_t>(127 + F::kSmallestExponent) << 23;
  const float y = x * inverse;
  float magnitude = core::float_of(core::magnitude_bits(y));
  if (magnitude > F::kLargest) magnitude = F::kLargest;
  std::uint32_t exponent = core::bits_of(magnitude) & kExponentMask;
  if (exponent < kSmallest) exponent = kSmallest;
  const float steps_per_one =
      core::float_of((static_cast<std::uint32_t>(254 + F::kMantissa) << 23) - exponent);
  const auto steps = static_cast<std::uint32_t>(magnitude * steps_per_one + u);
  const std::uint32_t code = steps + ((exponent - kSmallest) >> (23 - F::kMantissa));
  return static_cast<std::uint8_t>(code | (core::bits_of(y) >> 31 << 7));
}

template <Float8Format kFormat>
RINGPRESS_HOST_DEVICE inline float value_of_code(std::uint8_t code, std::uint16_t stored) {
  return core::widen(typename Format<kFormat>::Type{code}) * core::widen(core::Bfloat16{stored});
}

/// Codes of a block that starts `first` elements after random.first_element; gives its stored unit.
/// Takes any values.
template <Float8Format kFormat, bool kStochastic>
inline std::uint16_t encode_block(const float* x, std::size_t count, const RandomKey& random,
                                  std::size_t first, std::uint8_t* codes) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = core::magnitude_bits(x[i]);
    if (magnitude < core::kInfinityBits && magnitude > largest) largest = magnitude;
  }
  const std::uint16_t stored = stored_unit<kFormat>(largest);
  const float inverse = inverse_unit(stored);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (kStochastic) {
      const float u = core::unit_interval(core::random_half(random, first + i));
      codes[i] = stochastic_code<kFormat>(x[i], inverse, u);
    } else {
      codes[i] = nearest_code<kFormat>(x[i], inverse);
    }
  }
  return stored;
}

}  // namespace ringpress::compress_kernels::fp8

#endif  // COMPRESS_KERNELS_FP8_CODES_H_
