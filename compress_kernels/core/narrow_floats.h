// float16, bfloat16 and the two float8 types: storage and conversion to and from float32.
//
// Narrowing rounds to nearest even. float16 and bfloat16 overflow to infinity as IEEE 754 says;
// the float8 types saturate at their largest finite value, as NCCL's do. NaN stays NaN (quiet, with
// the top bits of its payload); an infinity that the target lacks (e4m3) becomes NaN.
#ifndef COMPRESS_KERNELS_CORE_NARROW_FLOATS_H_
#define COMPRESS_KERNELS_CORE_NARROW_FLOATS_H_

#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

struct Float16 {
  std::uint16_t bits;
};
struct Bfloat16 {
  std::uint16_t bits;
};
struct Float8e4m3 {
  std::uint8_t bits;
};
struct Float8e5m2 {
  std::uint8_t bits;
};

namespace internal {

/// Rounds a finite magnitude to a format with `kMantissa` stored mantissa bits and this exponent
/// bias. The result may exceed the format's largest finite code; the caller then saturates.
template <int kMantissa, int kBias>
RINGPRESS_HOST_DEVICE inline std::uint32_t narrow_magnitude(std::uint32_t magnitude) {
  constexpr std::uint32_t kSmallestNormal = static_cast<std::uint32_t>(128 - kBias) << 23;
  if (magnitude < kSmallestNormal) {
    // One unit in the last place of this float is one subnormal step of the narrow format.
    constexpr std::uint32_t kShift = static_cast<std::uint32_t>(151 - kBias - kMantissa) << 23;
    return bits_of(float_of(magnitude) + float_of(kShift)) - kShift;
  }
  constexpr int kDropped = 23 - kMantissa;
  const std::uint32_t odd = (magnitude >> kDropped) & 1u;
  const std::uint32_t rounded = magnitude + ((1u << (kDropped - 1)) - 1u) + odd;
  return (rounded >> kDropped) - (static_cast<std::uint32_t>(127 - kBias) << kMantissa);
}

/// The float32 of a finite magnitude in the narrow format. Exact.
template <int kMantissa, int kBias>
RINGPRESS_HOST_DEVICE inline float widen_magnitude(std::uint32_t code) {
  constexpr std::uint32_t kStepExponent = static_cast<std::uint32_t>(128 - kBias - kMantissa) << 23;
  if (code < (1u << kMantissa)) return static_cast<float>(code) * float_of(kStepExponent);
  return float_of((code << (23 - kMantissa)) + (static_cast<std::uint32_t>(127 - kBias) << 23));
}

RINGPRESS_HOST_DEVICE inline float with_sign(float magnitude, std::uint32_t sign) {
  return float_of(bits_of(magnitude) | sign);
}

}  // namespace internal

/// Identity, so that templates may widen any element that is reduced in float32.
RINGPRESS_HOST_DEVICE inline float widen(float value) {
  return value;
}

RINGPRESS_HOST_DEVICE inline float widen(Float16 value) {
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t code = value.bits & 0x7FFFu;
  if (code > 0x7C00u) return float_of(sign | kCanonicalNanBits | (code << 13));
  if (code == 0x7C00u) return float_of(sign | kInfinityBits);
  return internal::with_sign(internal::widen_magnitude<10, 15>(code), sign);
}

RINGPRESS_HOST_DEVICE inline float widen(Bfloat16 value) {
  return float_of(static_cast<std::uint32_t>(value.bits) << 16);
}

RINGPRESS_HOST_DEVICE inline float widen(Float8e4m3 value) {
  const std::uint32_t sign = (value.bits & 0x80u) << 24;
  const std::uint32_t code = value.bits & 0x7Fu;
  if (code == 0x7Fu) return float_of(sign | kCanonicalNanBits);
  return internal::with_sign(internal::widen_magnitude<3, 7>(code), sign);
}

RINGPRESS_HOST_DEVICE inline float widen(Float8e5m2 value) {
  const std::uint32_t sign = (value.bits & 0x80u) << 24;
  const std::uint32_t code = value.bits & 0x7Fu;
  if (code > 0x7Cu) return float_of(sign | kCanonicalNanBits | (code << 21));
  if (code == 0x7Cu) return float_of(sign | kInfinityBits);
  return internal::with_sign(internal::widen_magnitude<2, 15>(code), sign);
}

/// narrow<T>(value): value rounded to T.
template <typename T>
RINGPRESS_HOST_DEVICE inline T narrow(float value);

template <>
RINGPRESS_HOST_DEVICE inline float narrow<float>(float value) {
  return value;
}

template <>
RINGPRESS_HOST_DEVICE inline Float16 narrow<Float16>(float value) {
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t sign = (bits_of(value) & kSignBit) >> 16;
  std::uint32_t code;
  if (magnitude > kInfinityBits) {
    code = 0x7E00u | ((magnitude >> 13) & 0x3FFu);
  } else if (magnitude == kInfinityBits) {
    code = 0x7C00u;
  } else {
    code = internal::narrow_magnitude<10, 15>(magnitude);
    if (code > 0x7C00u) code = 0x7C00u;
  }
  return Float16{static_cast<std::uint16_t>(sign | code)};
}

template <>
RINGPRESS_HOST_DEVICE inline Bfloat16 narrow<Bfloat16>(float value) {
  const std::uint32_t bits = bits_of(value);
  if (magnitude_bits(value) > kInfinityBits) {
    return Bfloat16{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  }
  const std::uint32_t odd = (bits >> 16) & 1u;
  return Bfloat16{static_cast<std::uint16_t>((bits + 0x7FFFu + odd) >> 16)};
}

template <>
RINGPRESS_HOST_DEVICE inline Float8e4m3 narrow<Float8e4m3>(float value) {
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t sign = (bits_of(value) & kSignBit) >> 24;
  std::uint32_t code = 0x7Fu;
  if (magnitude < kInfinityBits) {
    code = internal::narrow_magnitude<3, 7>(magnitude);
    if (code > 0x7Eu) code = 0x7Eu;
  }
  return Float8e4m3{static_cast<std::uint8_t>(sign | code)};
}

template <>
RINGPRESS_HOST_DEVICE inline Float8e5m2 narrow<Float8e5m2>(float value) {
  const std::uint32_t magnitude = magnitude_bits(value);
  const std::uint32_t sign = (bits_of(value) & kSignBit) >> 24;
  std::uint32_t code;
  if (magnitude > kInfinityBits) {
    code = 0x7Eu | ((magnitude >> 21) & 0x3u);
  } else if (magnitude == kInfinityBits) {
    code = 0x7Cu;
  } else {
    code = internal::narrow_magnitude<2, 15>(magnitude);
    if (code > 0x7Bu) code = 0x7Bu;
  }
  return Float8e5m2{static_cast<std::uint8_t>(sign | code)};
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_NARROW_FLOATS_H_
