// fp8: each value becomes an OCP float8, e4m3 or e5m2, times a scale of its block.
//
// Wire bytes of a chunk of n values, blocks of `block` values, m = ceil(n / block). There is no
// header and the bytes do not depend on the element type.
//
//   bytes   content
//   2 m     unit of each block, bfloat16
//   n       float8 codes: e4m3 (largest 448, no infinities) or e5m2 (largest 57344)
//
// Arithmetic, each operation rounded to float32 (x: value plus residual; u: see philox.h):
//
//   unit = largest finite |x| of the block * (1 / largest float8), rounded up to bfloat16
//   y    = x * (1 / unit)
//   nearest      code = y rounded to the nearest float8, ties to even
//   stochastic   code = the lower or upper float8 next to y: floor(|y| / step + u) steps
//   value        code * unit, which is exact
//
// A bfloat16 and not a power of two: with that the largest |x| would come anywhere in the upper
// half of the range, where a float8 is 3 to 6 % off; it now is off by 0.8 % at most. On gradients
// and Gaussians in blocks of 128 that saves 7 % of the squared error, on Student-t values 30 %, for
// 0.8 % more bytes. Blocks of 128, because smaller ones cost more bytes than they save error.
//
// Error of one value: nearest at most 2^-4 (e4m3) or 2^-3 (e5m2) of its magnitude, or half the
// smallest step, 2^-10 or 2^-17 units, whichever is more; stochastic twice that and unbiased: its
// mean is off by 2^-17 steps at most. Blocks whose largest |x| is below 2^-94 become zeros: the
// steps of all others are normal floats, whatever the host program does to subnormal ones.
//
// A NaN or an infinity becomes a NaN (code 0x7F) at its place, leaves its residual alone, and costs
// the other values of its block nothing.
#ifndef COMPRESS_KERNELS_FP8_FP8_H_
#define COMPRESS_KERNELS_FP8_FP8_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/power_of_two.h"
#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

enum class Float8Format : std::uint8_t { kE4m3, kE5m2 };

struct Fp8Parameters {
  Float8Format format = Float8Format::kE4m3;
  std::size_t block = 128;  // Elements; a power of two from 32 to 1024.
  bool stochastic = false;
  DType dtype = DType::kFloat32;
};

/// Where the codes begin, in bytes from the start of a chunk. The units are at 0.
RINGPRESS_HOST_DEVICE inline std::size_t fp8_codes_offset(const Fp8Parameters& parameters,
                                                          std::size_t count) {
  return core::blocks_of(count, parameters.block) * sizeof(std::uint16_t);
}

RINGPRESS_HOST_DEVICE inline std::size_t encoded_bytes(const Fp8Parameters& parameters,
                                                       std::size_t count) {
  return fp8_codes_offset(parameters, count) + count;
}

namespace fp8 {

/// The specification: one element at a time.
const KernelTable<Fp8Parameters>& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const KernelTable<Fp8Parameters>* simd_kernels(std::int64_t target);

}  // namespace fp8
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_FP8_FP8_H_
