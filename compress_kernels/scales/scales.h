// Coordinate scales: a lossy codec's values are divided by a factor of their own each before it
// encodes them, and multiplied by it after it has decoded them. A block has one step for all its
// values; with scales the step of a coordinate that is mostly small is smaller than that of one
// that is mostly large, for the same bytes.
//
// A factor is one byte, a code from 0 to kLargestScale: 1, 1.5, 2, 3, 4, 6, 8, 12, 16, about
// 2^(code / 2). Codes come from v, a running mean square of each coordinate's results, relative to
// the mean of v in the coordinate's block:
//
//   factor ~ (v / mean v + kScaleFloor)^(3/8), to the nearest code, by the logarithm that a float's
//                                              bits are (off by 0.09 of an octave at most)
//
// The floor is what a result tells at least of its coordinate: one that came out as zero is only
// below half a step. No factor is 16 times another's of its block or more, whatever v is, so no
// coordinate is ever lost.
//
// What computes codes is one compilation for all machines, of operations that IEEE 754 fixes, and
// takes no number below the smallest normal one: ranks with equal results have equal codes.
#ifndef COMPRESS_KERNELS_SCALES_SCALES_H_
#define COMPRESS_KERNELS_SCALES_SCALES_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::scales {

inline constexpr std::uint8_t kLargestScale = 8;

// A code shifted by 22 bits counts halves of octaves, the odd ones at 1.5 times a power of two.
inline constexpr int kScaleShift = 22;
inline constexpr std::uint32_t kOneBits = 0x3F800000;
// The reciprocal of 1.5 is not 0.75: so much lower, in the last places.
inline constexpr std::uint32_t kOddBits = 0x00155555;

// Bits of a float32, for kernels too.
RINGPRESS_HOST_DEVICE constexpr std::uint32_t scale_bits(std::uint32_t code) {
  return kOneBits + (code << kScaleShift);
}
RINGPRESS_HOST_DEVICE constexpr std::uint32_t inverse_scale_bits(std::uint32_t code) {
  return kOneBits - (code << kScaleShift) - (code % 2 != 0 ? kOddBits : 0);
}

constexpr float scale_of(std::uint8_t code) {
  return std::bit_cast<float>(scale_bits(code));
}
/// 1 / scale_of(code), rounded.
constexpr float inverse_scale_of(std::uint8_t code) {
  return std::bit_cast<float>(inverse_scale_bits(code));
}

/// Arrays of any alignment but `scaled`, which is aligned for vectors.
struct ScaleKernels {
  /// scaled = values / scale. `values`: of a compressible type.
  void (*divide)(DType dtype, const void* values, const std::uint8_t* codes, std::size_t count,
                 float* scaled) = nullptr;
  /// values = scaled * scale, rounded to their type.
  void (*multiply)(DType dtype, const float* scaled, const std::uint8_t* codes, std::size_t count,
                   void* values) = nullptr;
};

/// The specification: one element at a time.
const ScaleKernels& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const ScaleKernels* simd_kernels(std::int64_t target);

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_SCALES_H_
