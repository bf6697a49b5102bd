// fp16 and bf16: each value becomes one float16 or bfloat16.
//
// Wire bytes of a chunk of n values:
//
//   bytes   content
//   2 n     the values, rounded to nearest even; what is too large becomes infinity
//
// Error of one value: 2^-11 (fp16) or 2^-8 (bf16) of its magnitude; fp16 values below 2^-14 have an
// absolute error of 2^-25. Where value minus decoded value is not finite, the residual is left
// alone.
#ifndef COMPRESS_KERNELS_CAST_CAST_H_
#define COMPRESS_KERNELS_CAST_CAST_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct CastParameters {
  DType wire = DType::kFloat16;   // kFloat16, kBfloat16, or dtype itself ("none").
  DType dtype = DType::kFloat32;  // A compressible type.
};

inline std::size_t encoded_bytes(const CastParameters& parameters, std::size_t count) {
  return count * dtype_size(parameters.wire);
}

namespace cast {

/// The specification: one element at a time.
const KernelTable<CastParameters>& reference_kernels();
/// The kernels of a Highway target; null if this build has none for it.
const KernelTable<CastParameters>* simd_kernels(std::int64_t target);

}  // namespace cast
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_CAST_CAST_H_
