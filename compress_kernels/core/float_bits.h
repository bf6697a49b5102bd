// The bits of a float32 and the limits that the codecs test on them.
#ifndef COMPRESS_KERNELS_CORE_FLOAT_BITS_H_
#define COMPRESS_KERNELS_CORE_FLOAT_BITS_H_

#include <cstdint>
#include <cstring>

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

inline constexpr std::uint32_t kSignBit = 0x80000000u;
inline constexpr std::uint32_t kMagnitudeMask = 0x7FFFFFFFu;
inline constexpr std::uint32_t kInfinityBits = 0x7F800000u;  // Magnitudes from here on: Inf, NaN.
inline constexpr std::uint32_t kCanonicalNanBits = 0x7FC00000u;

RINGPRESS_HOST_DEVICE inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

RINGPRESS_HOST_DEVICE inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The magnitude as an integer: ordered like the magnitudes themselves, NaN above everything.
RINGPRESS_HOST_DEVICE inline std::uint32_t magnitude_bits(float value) {
  return bits_of(value) & kMagnitudeMask;
}

/// The larger of `largest`, which is none below zero, and |value|; NaN if one of them is.
RINGPRESS_HOST_DEVICE inline float largest_magnitude(float largest, float value) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(largest), "f"(fabsf(value)));
  return result;
#else
  const std::uint32_t magnitude = magnitude_bits(value);
  return bits_of(largest) < magnitude ? float_of(magnitude) : largest;
#endif
}

/// Tested on the bits, so that no compiler option can fold it away.
RINGPRESS_HOST_DEVICE inline bool is_finite(float value) {
  return magnitude_bits(value) < kInfinityBits;
}

/// The new residual of a value: what was lost, unless that is not a finite number.
RINGPRESS_HOST_DEVICE inline float new_residual(float x, float decoded, float old) {
  const float lost = x - decoded;
  return is_finite(lost) ? lost : old;
}

/// Nearest integer, ties to even, for |value| < 2^22 under the default rounding mode.
RINGPRESS_HOST_DEVICE inline float round_to_even(float value) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: floats there are whole numbers.
  return (value + kShift) - kShift;
}

/// a * b + c for a product that is exact: rounded once or twice, it is the same.
RINGPRESS_HOST_DEVICE inline float add_exact_product(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/// a * b + c, rounded once or twice: for what need not be the same everywhere.
RINGPRESS_HOST_DEVICE inline float rough_fma(float a, float b, float c) {
  return add_exact_product(a, b, c);
}

/// As rough_fma(), limited to [0, 1]. Not NaN.
RINGPRESS_HOST_DEVICE inline float limited_fma(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __saturatef(__fmaf_rn(a, b, c));
#else
  const float sum = a * b + c;
  return sum < 0 ? 0.0f : sum > 1 ? 1.0f : sum;
#endif
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_FLOAT_BITS_H_
