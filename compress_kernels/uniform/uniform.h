// q1 .. q8: codes of 1 to 8 bits with one scale per block; partial sums of a ring take up to 10.
//
// Wire bytes of a chunk of n values, B bits, blocks of `block` values, m = ceil(n / block). There
// is no header and the bytes do not depend on the element type.
//
//   grid      bytes               content
//   uniform   2 m                 scale of each block, bfloat16
//             ceil(n B / 8)       codes, least significant bit first, contiguous over all blocks;
//                                 bits after the last code are zero. Where B is 9 or 10, n bytes
//                                 with the highest 8 bits of each code come first, the others'
//                                 ceil(n (B - 8) / 8) bytes after them
//   minmax    4 m                 smallest value of each block, float32
//             2 m                 step of each block, bfloat16
//             ceil(n B / 8)       codes, as above
//
// Arithmetic, each operation rounded to float32 (x: value plus residual; RNE: to the nearest
// integer, ties to even; u: see philox.h):
//
//   uniform, B >= 2   L = 2^(B-1) - 1, scale m = largest |x| of the block, rounded up to bfloat16
//                     nearest     code = RNE(x * (L / m)) + L
//                     stochastic  code = floor(x * (L / m) + L + u), limited to [0, 2 L]
//                     value       (code - L) * (s / L)
//                     s is what is stored: m, or where it is fitted (nearest, B <= 6) the scale of
//                     least squares, which depends on all values and codes c = code - L of a block:
//                                 m * (sum of c * y / sum of c * c), rounded to bfloat16 (RNE),
//                                 y = x * (L / m), rounded to a multiple of 2^(2 B - 16) (RNE)
//   uniform, B = 1    nearest     s = mean |x| rounded to bfloat16; code = 1 where x >= 0
//                     stochastic  s = largest |x| rounded up; code = floor(x * (0.5 / s) + 0.5 + u)
//                     value       (2 code - 1) * s
//   minmax            low = smallest x
//                     step = (largest x - low) / (2^B - 1), rounded up to bfloat16
//                     nearest     code = RNE((x - low) * (1 / step)), at most 2^B - 1
//                     stochastic  code = floor((x - low) * (1 / step) + u), at most 2^B - 1
//                     value       low + code * step
//
// Error of one value in a finite block: nearest at most half a step, stochastic less than one step
// (a step is s / L, 2 s for one stochastic bit, or the minmax step), one nearest bit at most the
// larger of s and largest |x| - s; each plus float32 rounding of the result. With a fitted scale it
// may be larger (fitted_steps()), but the squares of a block's errors add up to less: no block
// becomes longer by being encoded, and what it lacks comes back by error feedback. A block whose
// extent is below 2^-100 loses that extent; minmax saturates at +-2^126. Zeros stay zero on the
// uniform grid of 2 bits and more. A block with a NaN or an infinity gets scale NaN (low too) and
// codes 0; it decodes to NaN throughout and leaves its residual alone.
#ifndef COMPRESS_KERNELS_UNIFORM_UNIFORM_H_
#define COMPRESS_KERNELS_UNIFORM_UNIFORM_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

enum class Grid : std::uint8_t { kUniform, kMinMax };
enum class Rounding : std::uint8_t { kNearest, kStochastic };

inline constexpr std::size_t kSmallestBlock = 32;
inline constexpr std::size_t kLargestBlock = 1024;

struct UniformParameters {
  int bits = 4;
  int part_bits = 0;  // Of what a hop adds; 0: as `bits`.
  Grid grid = Grid::kUniform;
  bool fits = false;        // Scales: fitted, where that is known.
  std::size_t block = 128;  // Elements; a power of two.
  Rounding rounding = Rounding::kNearest;
  DType dtype = DType::kFloat32;
};

/// True if scales are those of least squares. Of more bits the fit would be the largest magnitude's
/// but for its rounding; unbiased codes must keep that one.
RINGPRESS_HOST_DEVICE inline bool takes_fit(const UniformParameters& parameters) {
  return parameters.fits && parameters.grid == Grid::kUniform &&
         parameters.rounding == Rounding::kNearest && parameters.bits > 1 &&
         parameters.bits <= core::kMostFittedBits;
}

/// How many steps a value and what a fitted scale makes of it may be apart, in a block of `block`.
double fitted_steps(int bits, std::size_t block);

/// What the parts of a hop are decoded with.
RINGPRESS_HOST_DEVICE inline UniformParameters parameters_of_parts(UniformParameters parameters) {
  if (parameters.part_bits != 0) parameters.bits = parameters.part_bits;
  return parameters;
}

/// Where the parts of a chunk begin, in bytes from its start.
struct UniformLayout {
  std::size_t blocks = 0;
  std::size_t units_offset = 0;  // bfloat16 scales or steps. The lows of minmax are at 0.
  std::size_t codes_offset = 0;
  std::size_t low_codes_offset = 0;  // The plane of lowest bits (bit_pack.h).
  std::size_t total_bytes = 0;
};

RINGPRESS_HOST_DEVICE inline UniformLayout uniform_layout(const UniformParameters& parameters,
                                                          std::size_t count) {
  UniformLayout layout;
  layout.blocks = core::blocks_of(count, parameters.block);
  layout.units_offset = parameters.grid == Grid::kMinMax ? layout.blocks * sizeof(float) : 0;
  layout.codes_offset = layout.units_offset + layout.blocks * sizeof(std::uint16_t);
  layout.low_codes_offset =
      layout.codes_offset + core::plane_bytes(count, core::high_plane_bits(parameters.bits));
  layout.total_bytes = layout.codes_offset + core::packed_bytes(count, parameters.bits);
  return layout;
}

RINGPRESS_HOST_DEVICE inline std::size_t encoded_bytes(const UniformParameters& parameters,
                                                       std::size_t count) {
  return uniform_layout(parameters, count).total_bytes;
}

namespace uniform {

/// The specification: one element at a time.
const KernelTable<UniformParameters>& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const KernelTable<UniformParameters>* simd_kernels(std::int64_t target);

}  // namespace uniform
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_UNIFORM_UNIFORM_H_
