// The wire format of `fixed`, the example of a codec: a byte for each value, which is the value in
// steps of 2^-shift, from -127 to 127. The byte 0x80 is what is not a finite number; it decodes to
// NaN. A chunk of n values takes n bytes.
#ifndef TESTS_EXAMPLES_CODEC_FIXED_H_
#define TESTS_EXAMPLES_CODEC_FIXED_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

/// Plain data: it goes to kernels as it is.
struct FixedParameters {
  float steps = 64;         // In 1; a power of two.
  std::size_t block = 256;  // For core/block_reference.h, which encodes so many values at a time.
  DType dtype = DType::kFloat32;
};

inline std::size_t encoded_bytes(const FixedParameters&, std::size_t count) {
  return count;
}

namespace fixed {

inline constexpr std::uint8_t kNoNumber = 0x80;

/// Host and device share this arithmetic, so that they make the same bytes.
RINGPRESS_HOST_DEVICE inline std::uint8_t code_of(float x, float steps) {
  if (!core::is_finite(x)) return kNoNumber;
  const float y = x * steps;
  const float most = y < -127.0f ? -127.0f : y > 127.0f ? 127.0f : y;
  const int code = static_cast<int>(most < 0 ? most - 0.5f : most + 0.5f);
  return static_cast<std::uint8_t>(static_cast<std::int8_t>(code));
}

RINGPRESS_HOST_DEVICE inline float value_of(std::uint8_t code, float steps) {
  if (code == kNoNumber) return core::float_of(0x7FC00000u);
  return static_cast<float>(static_cast<std::int8_t>(code)) / steps;
}

/// The specification: one element at a time.
const KernelTable<FixedParameters>& reference_kernels();

}  // namespace fixed
}  // namespace ringpress::compress_kernels

#endif  // TESTS_EXAMPLES_CODEC_FIXED_H_
