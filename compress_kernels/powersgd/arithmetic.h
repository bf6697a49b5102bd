// What the host and kernels compute alike on the columns of P and Q.
#ifndef COMPRESS_KERNELS_POWERSGD_ARITHMETIC_H_
#define COMPRESS_KERNELS_POWERSGD_ARITHMETIC_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::powersgd {

/// Lanes of the float64 sums over a column: value i goes to lane i mod 256, and lanes l and l + d
/// are added for d = 128, 64, .., 1. So many that a block of threads has one each.
inline constexpr std::size_t kDotLanes = 256;

/// What is left of a column that is not worth more than the rounding errors in it.
RINGPRESS_HOST_DEVICE inline bool is_worth_keeping(double left, double whole) {
  constexpr double kNothingLeft = 0x1p-20;
  return left > whole * (kNothingLeft * kNothingLeft);
}

RINGPRESS_HOST_DEVICE inline float scaled(float value, double factor) {
  return static_cast<float>(double{value} * factor);
}

/// A value of a column that loses its part along a column of norm 1.
RINGPRESS_HOST_DEVICE inline float without_part(float value, double part, float unit) {
  return static_cast<float>(double{value} - part * double{unit});
}

/// The random bits of a group of values of column k.
RINGPRESS_HOST_DEVICE inline philox4x32_ctr_t words_of_group(const RandomKey& random, std::size_t k,
                                                             std::size_t columns,
                                                             std::uint64_t group) {
  const std::uint64_t groups = (columns + core::kElementsPerGroup - 1) / core::kElementsPerGroup;
  return philox4x32(core::philox_counter(random, k * groups + group), core::philox_key(random));
}

/// Uniform in (-1, 1) has variance 1/3: this makes the expected norm of a column 1.
inline float factor_of_draws(std::size_t columns) {
  return static_cast<float>(std::sqrt(3.0 / static_cast<double>(columns)));
}

/// Value number `place` of a group.
RINGPRESS_HOST_DEVICE inline float drawn_value(const philox4x32_ctr_t& words, std::uint32_t place,
                                               float factor) {
  const std::uint32_t half = (core::word_of(words, place / 2) >> (16 * (place % 2))) & 0xFFFFu;
  return (2 * core::unit_interval(half) - 1) * factor;
}

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_ARITHMETIC_H_
