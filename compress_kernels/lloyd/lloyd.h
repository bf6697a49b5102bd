// qB:grid=lloyd: B bits per value on the levels that are best for a Gaussian (Lloyd 1982, Max
// 1960), after a random rotation of each block that makes its values look like a Gaussian whatever
// they were. One outlier then costs its block little: it is spread over all values.
//
// Wire bytes of a chunk of n values, B bits, blocks of `block` values, m = ceil(n / block). There
// is no header and the bytes do not depend on the element type.
//
//   bytes               content
//   2 m                 scale of each block, bfloat16
//   4, or 4 m           seed of the rotation of all blocks (round=stochastic: of each); none with
//                       rotate=0
//   ceil(n B / 8)       codes, least significant bit first, contiguous over all blocks; bits after
//                       the last code are zero. Codes rise with the values. Where B is 9 or 10
//                       (partial sums of a ring), n bytes with the highest 8 bits of each code come
//                       first, the others' ceil(n (B - 8) / 8) bytes after them
//
// Arithmetic, each operation rounded to float32. A block of n values is cut into parts of
// descending powers of two (a whole block is one part). p: size of a part, P: that of the largest;
// w = sqrt(P / p), which is 1 for the largest. Without rotation every part is one value, and P = p
// = w = 1.
//
//   1  y = w H(d x)          x: value plus residual, d: signs (rotation.h), H: the unnormalised
//                            Walsh-Hadamard transform, strides from large to small.
//                            round=stochastic: y = H(d2 H(d x)), P = block^2
//   2  S = sum of y^2        in 256 lanes, as all sums over a block (sum_block() in block.h);
//                            a = y / sqrt(S / n)
//   3  code                  that of the level L nearest to a (levels.h)
//   4  scale                 round=nearest: sum y L / sum L^2, the least squared error
//                            round=stochastic: S / sum y L, which makes the mean over all
//                            rotations the value itself (Vargaftik et al., EDEN, 2022, section 3)
//                            divided by P, rounded to bfloat16
//   5  value                 d (scale w) H(L), or d scale H(d2 H(L))
//
// With round=stochastic a partial block at the end of a chunk is not rotated: its values become one
// of their two neighbouring levels at random (dither_block() in block.h).
//
// A block whose S is not between 2^-80 and 2^100 is first multiplied by the power of two that
// brings its largest magnitude into [1, 2). One with a NaN or an infinity gets scale NaN and codes
// 0, decodes to NaN throughout and leaves its residual alone; so does a value whose residual would
// not be finite. One below 2^-100 gets scale and codes 0 and decodes to zeros. Decoded values
// saturate at the largest float, and those of a single rank at the largest value of the type.
//
// Error of a finite block, as the l2 norm of all its errors over that of its values, squared: about
// 0.36, 0.117, 0.0345, 0.0095, 0.0025, 0.0007, 0.0002, 0.00005, 1.4e-5, 5e-6 for 1 to 10 bits with
// a rotation, whatever the values, or up to a quarter more where most of them are zero; never above
// 1 with round=nearest.
#ifndef COMPRESS_KERNELS_LLOYD_LLOYD_H_
#define COMPRESS_KERNELS_LLOYD_LLOYD_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

inline constexpr std::size_t kSmallestLloydBlock = 64;
inline constexpr std::size_t kLargestLloydBlock = 1024;
/// With round=stochastic. In smaller blocks the rotations of a few values are too few to be without
/// bias: one large value among 64 comes out a hundredth too large or too small.
inline constexpr std::size_t kSmallestUnbiasedLloydBlock = 256;

struct LloydParameters {
  int bits = 4;
  int part_bits = 0;         // Of what a hop adds; 0: as `bits`.
  std::size_t block = 1024;  // Elements; a power of two from 64 to 1024.
  bool rotates = true;
  bool unbiased = false;  // round=stochastic. Only with a rotation.
  DType dtype = DType::kFloat32;
};

/// What the parts of a hop are decoded with.
RINGPRESS_HOST_DEVICE inline LloydParameters parameters_of_parts(LloydParameters parameters) {
  if (parameters.part_bits != 0) parameters.bits = parameters.part_bits;
  return parameters;
}

/// Where the parts of a chunk begin, in bytes from its start. The scales are at 0.
struct LloydLayout {
  std::size_t blocks = 0;
  std::size_t seeds = 0;  // Of 4 bytes.
  std::size_t seeds_offset = 0;
  std::size_t codes_offset = 0;
  std::size_t low_codes_offset = 0;  // The plane of lowest bits (bit_pack.h).
  std::size_t total_bytes = 0;
};

RINGPRESS_HOST_DEVICE inline LloydLayout lloyd_layout(const LloydParameters& parameters,
                                                      std::size_t count) {
  LloydLayout layout;
  layout.blocks = core::blocks_of(count, parameters.block);
  if (parameters.rotates) layout.seeds = parameters.unbiased ? layout.blocks : layout.blocks > 0;
  layout.seeds_offset = layout.blocks * sizeof(std::uint16_t);
  layout.codes_offset = layout.seeds_offset + layout.seeds * sizeof(std::uint32_t);
  layout.low_codes_offset =
      layout.codes_offset + core::plane_bytes(count, core::high_plane_bits(parameters.bits));
  layout.total_bytes = layout.codes_offset + core::packed_bytes(count, parameters.bits);
  return layout;
}

inline std::size_t encoded_bytes(const LloydParameters& parameters, std::size_t count) {
  return lloyd_layout(parameters, count).total_bytes;
}

namespace lloyd {

/// The specification: one element at a time.
const KernelTable<LloydParameters>& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const KernelTable<LloydParameters>* simd_kernels(std::int64_t target);

}  // namespace lloyd
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_LLOYD_LLOYD_H_
