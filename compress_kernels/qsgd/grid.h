// The arithmetic of one value on a grid that all ranks share, as functions that host code and CUDA
// kernels have in common. qsgd.h says what it means.
#ifndef COMPRESS_KERNELS_QSGD_GRID_H_
#define COMPRESS_KERNELS_QSGD_GRID_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::qsgd {

/// Positive steps of a grid of so many bits; the sign comes on top.
RINGPRESS_HOST_DEVICE inline std::uint32_t steps_of(int bits) {
  return (1u << bits) - 1u;
}

/// Of packed numbers: enough for four million ranks with 8 bits.
inline constexpr int kLargestWidth = 31;

/// Bits that any sum of `summed` codes from -steps to steps takes.
RINGPRESS_HOST_DEVICE inline int width_of_sum(std::size_t summed, std::uint32_t steps) {
  int width = 1;
  while (width < kLargestWidth && (std::uint64_t{2} * summed * steps) >> width != 0) ++width;
  return width;
}

/// The norm of values whose largest magnitude has these bits, as it is sent: a bfloat16 that is not
/// below it, 0 if it is below 2^-100, NaN if one of them is not finite.
RINGPRESS_HOST_DEVICE inline std::uint16_t norm_of_magnitude(std::uint32_t largest) {
  if (largest >= core::kInfinityBits) return core::kBfloat16Nan;
  return largest < core::kExtentFloorBits ? std::uint16_t{0} : core::round_up_to_bfloat16(largest);
}

/// What a norm M makes of a grid of s steps. Zero for both: all values are zero. NaN unit: a value
/// was not finite.
struct GridScale {
  float inverse = 0;  // 256 s / M
  float unit = 0;     // M / s
};

/// Whatever the bits of the norm: its sign is ignored, infinities count as NaN.
RINGPRESS_HOST_DEVICE inline GridScale grid_scale(std::uint16_t norm, std::uint32_t steps) {
  const std::uint32_t magnitude = (norm & 0x7FFFu) << 16;
  if (magnitude >= core::kInfinityBits) return {0.0f, core::float_of(core::kCanonicalNanBits)};
  if (magnitude < core::kExtentFloorBits) return {};
  const float m = core::float_of(magnitude);
  return {static_cast<float>(256u * steps) / m, m / static_cast<float>(steps)};
}

/// `value` between two limits; NaN becomes the lower one, as the instructions of vectors have it.
RINGPRESS_HOST_DEVICE inline float limited(float value, float low, float high) {
  const float raised = value > low ? value : low;
  return raised < high ? raised : high;
}

/// True if a value may use a grid: its code fits the transport's `steps`, however it is rounded.
RINGPRESS_HOST_DEVICE inline bool fits_grid(float x, float inverse, std::uint32_t steps) {
  return core::float_of(core::magnitude_bits(x)) * inverse <= static_cast<float>(256u * steps);
}

/// Code plus `steps`. `bias`: dither.h. For any x, also one that is not finite, a code of the grid.
RINGPRESS_HOST_DEVICE inline std::uint32_t stochastic_code(float x, float inverse,
                                                           std::uint32_t steps, float bias,
                                                           std::uint32_t dither) {
  const float largest = static_cast<float>(512u * steps);
  const auto position = static_cast<std::uint32_t>(limited(x * inverse + bias, 0.0f, largest));
  return (position + dither) >> 8;
}

/// Code plus `steps`, rounded toward zero.
RINGPRESS_HOST_DEVICE inline std::uint32_t truncated_code(float x, float inverse,
                                                          std::uint32_t steps) {
  const float largest = static_cast<float>(steps);
  const float y = limited((x * inverse) * 0x1p-8f, -largest, largest);
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(y) +
                                    static_cast<std::int32_t>(steps));
}

/// Value of a sum of codes; `offset` is what was added to it to make it positive.
RINGPRESS_HOST_DEVICE inline float value_of_code(std::uint32_t code, std::uint32_t offset,
                                                 float unit) {
  return static_cast<float>(static_cast<std::int32_t>(code - offset)) * unit;
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_GRID_H_
