// The 8-bit values of topk: a sign and 7 bits of magnitude on a grid of the chunk's own.
//
// The bits of a float, taken as an integer, rise nearly with the logarithm of its magnitude. 125
// equal steps of that integer lead from the smallest to the largest magnitude that share a scale,
// but no further down than 8 octaves: values that passed one threshold lie close together, and
// their relative error is then small, be the range 2 (0.3 %) or 256 (3 %).
//
//   scale   2 bytes high   largest finite magnitude as bfloat16, rounded up
//           2 bytes low    smallest one above zero as bfloat16, rounded down; at least high - 1024
//   code    bit 7 sign, bits 0..6 magnitude m
//           m = 0          zero: also magnitudes below half of low
//           m = 1..126     the float with the bits  low 2^16 + (m - 1) step,
//                          step = max(1, floor((high - low) 2^16 / 125))
//           m = 127        NaN: whatever was not finite
#ifndef COMPRESS_KERNELS_TOPK_VALUE_CODE_H_
#define COMPRESS_KERNELS_TOPK_VALUE_CODE_H_

#include <cstdint>
#include <type_traits>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"

namespace ringpress::compress_kernels::topk {

inline constexpr std::uint32_t kSteps = 125;
inline constexpr std::uint32_t kNanCode = 127;
inline constexpr std::uint32_t kRange = 8 * 128;  // In bfloat16 steps; 128 of them are an octave.
inline constexpr std::uint32_t kOctave = 1u << 23;

/// What stands on the wire for values that share a scale.
struct Scale {
  std::uint16_t high = 0;
  std::uint16_t low = 0;
};

/// The magnitudes of values that share a scale, those that are finite and not zero.
struct Extent {
  std::uint32_t largest = 0;
  std::uint32_t smallest = core::kInfinityBits;
};

RINGPRESS_HOST_DEVICE inline Scale scale_of(const Extent& extent) {
  Scale scale;
  if (extent.largest == 0) return scale;
  scale.high = core::round_up_to_bfloat16(extent.largest);
  const std::uint32_t floor = scale.high > kRange ? scale.high - kRange : 0;
  const std::uint32_t smallest = extent.smallest >> 16;
  scale.low = static_cast<std::uint16_t>(smallest > floor ? smallest : floor);
  return scale;
}

struct Grid {
  std::uint32_t low = 0;
  std::uint32_t step = 1;
  float inverse = 1;
};

/// Any scale makes a grid of finite magnitudes.
RINGPRESS_HOST_DEVICE inline Grid grid_of(const Scale& scale) {
  const std::uint32_t high =
      scale.high < core::kLargestBfloat16 ? scale.high : core::kLargestBfloat16;
  const std::uint32_t low = scale.low < high ? scale.low : high;
  Grid grid;
  grid.low = low << 16;
  grid.step = ((high - low) << 16) / kSteps;
  if (grid.step == 0) grid.step = 1;
  grid.inverse = 1.0f / static_cast<float>(grid.step);
  return grid;
}

RINGPRESS_HOST_DEVICE inline std::uint8_t encode_value(float value, const Grid& grid) {
  const std::uint32_t magnitude = core::magnitude_bits(value);
  if (magnitude >= core::kInfinityBits) return kNanCode;
  if (magnitude == 0) return 0;
  std::uint32_t code;
  if (magnitude < grid.low) {
    code = magnitude + kOctave >= grid.low ? 1 : 0;
  } else {
    const float steps = static_cast<float>(static_cast<std::int32_t>(magnitude - grid.low));
    const float nearest = core::round_to_even(steps * grid.inverse);
    code = 1 + (nearest < kSteps ? static_cast<std::uint32_t>(nearest) : kSteps);
  }
  return static_cast<std::uint8_t>(code == 0 ? 0 : code | (core::bits_of(value) >> 31) << 7);
}

RINGPRESS_HOST_DEVICE inline float decode_value(std::uint8_t code, const Grid& grid) {
  const std::uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0) return 0.0f;
  if (magnitude == kNanCode) return core::float_of(core::kCanonicalNanBits);
  const std::uint32_t sign = static_cast<std::uint32_t>(code & 0x80u) << 24;
  return core::float_of(sign | (grid.low + (magnitude - 1) * grid.step));
}

/// value=16: bfloat16 to nearest; finite stays finite, all else becomes one NaN.
RINGPRESS_HOST_DEVICE inline std::uint16_t encode_wide_value(float value) {
  const std::uint32_t magnitude = core::magnitude_bits(value);
  if (magnitude >= core::kInfinityBits) return core::kBfloat16Nan;
  const std::uint32_t rounded = (magnitude + 0x7FFFu + ((magnitude >> 16) & 1u)) >> 16;
  const std::uint32_t code = rounded < core::kLargestBfloat16 ? rounded : core::kLargestBfloat16;
  return static_cast<std::uint16_t>(code | (core::bits_of(value) >> 31) << 15);
}

RINGPRESS_HOST_DEVICE inline float decode_wide_value(std::uint16_t code) {
  const std::uint32_t bits = static_cast<std::uint32_t>(code) << 16;
  if ((bits & core::kMagnitudeMask) >= core::kInfinityBits) {
    return core::float_of(core::kCanonicalNanBits);
  }
  return core::float_of(bits);
}

/// A decoded value within the range of an element type: finite stays finite there, and infinite
/// infinite.
template <typename T>
RINGPRESS_HOST_DEVICE inline float limited(float value) {
  if constexpr (std::is_same_v<T, core::Float16>) {
    constexpr float kLimit = 65504.0f;
    if (!core::is_finite(value)) return value;
    return value > kLimit ? kLimit : value < -kLimit ? -kLimit : value;
  } else {
    return value;
  }
}

}  // namespace ringpress::compress_kernels::topk

#endif  // COMPRESS_KERNELS_TOPK_VALUE_CODE_H_
