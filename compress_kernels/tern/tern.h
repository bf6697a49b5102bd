// tern: each value becomes -s, 0 or +s at random, so that its mean is the value (Wen et al.,
// TernGrad, 2017); s is the largest magnitude of its block.
//
// Wire bytes of a chunk of n values, blocks of `block` values, m = ceil(n / block). There is no
// header and the bytes do not depend on the element type.
//
//   bytes   content
//   2 m     scale s of each block, bfloat16
//   205     digits of each whole tile of 1024 values
//   S       digits of the c values of the last, partial tile; S = ceil(c / 5)
//
// Five digits of base 3 make a byte, 1.6 bits a value. Digit k, worth 3^k, of byte j of a tile is
// that of value j + k S (S = 205 for whole tiles; digits beyond the last value are 0): neighbours
// in memory stay neighbours, so that vectors of any length write and read it. Bytes of 243 and more
// are never written; their last digit is 3.
//
// Arithmetic, each operation rounded to float32 (x: value plus residual):
//
//   s      largest |x| of the block, rounded up to bfloat16. With clip=C at most C times the root
//          mean square of the block, as in the paper; values beyond s then count as s, which is
//          biased
//   k      x * (2^14 / s), rounded to the nearest integer, limited to +-2^14
//   digit  floor((k + 2^14 + r) / 2^14), r from 0 to 2^14 - 1 at random
//   value  (digit - 1) s
//
// The mean is k s / 2^14, so the bias is at most 2^-15 s. Random bits are what this codec spends
// its time on, so values share them: the r of four values are windows of 14 bits at every fourth
// place of 16 bits of Philox (digits.h). Each r is uniform, so each mean is as said; the highest 4
// bits of each belong to no other, so that the covariance of two values that share bits is at most
// s^2 / 64. They are 32 values apart.
//
// Error of one value: at most s, and s |x| - x^2 in the mean of squares. Over the squares of the
// values that is 1.3 for Gaussian ones in blocks of 128, 1.75 in blocks of 1024. Bits times
// (1 + error), to which the bytes for a given accuracy are proportional, is least for blocks of 32
// to 64 on all laws and gradients tried; blocks of 128 are within 3 % of that on Gaussians and
// gradients, and faster. Heavy tails want smaller ones.
//
// A block below 2^-100 becomes zeros. One with a NaN or an infinity gets scale NaN and digits 1; it
// decodes to NaN throughout and leaves its residual alone.
#ifndef COMPRESS_KERNELS_TERN_TERN_H_
#define COMPRESS_KERNELS_TERN_TERN_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct TernParameters {
  std::size_t block = 128;  // Elements; a power of two from 32 to 1024.
  float clip = 0;           // Times the root mean square of the block; 0: off.
  DType dtype = DType::kFloat32;
};

inline constexpr std::size_t kDigitsPerByte = 5;
inline constexpr std::size_t kTernTileBytes = (kTileElements + kDigitsPerByte - 1) / kDigitsPerByte;

/// Where the digits begin, in bytes from the start of a chunk. The scales are at 0.
RINGPRESS_HOST_DEVICE inline std::size_t tern_digits_offset(const TernParameters& parameters,
                                                            std::size_t count) {
  return core::blocks_of(count, parameters.block) * sizeof(std::uint16_t);
}

/// Bytes of the digits of `count` values, which begin a tile.
RINGPRESS_HOST_DEVICE inline std::size_t tern_digit_bytes(std::size_t count) {
  return count / kTileElements * kTernTileBytes +
         (count % kTileElements + kDigitsPerByte - 1) / kDigitsPerByte;
}

RINGPRESS_HOST_DEVICE inline std::size_t encoded_bytes(const TernParameters& parameters,
                                                       std::size_t count) {
  return tern_digits_offset(parameters, count) + tern_digit_bytes(count);
}

namespace tern {

/// The specification: one element at a time.
const KernelTable<TernParameters>& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const KernelTable<TernParameters>* simd_kernels(std::int64_t target);

}  // namespace tern
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_TERN_TERN_H_
