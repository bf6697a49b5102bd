// none: the elements themselves. Every NCCL type and reduction.
//
// Wire bytes of a chunk of n elements:
//
//   bytes               content
//   n sizeof(element)   the elements as they stand in memory
//
// float16, bfloat16 and the float8 types are reduced in float32 and rounded once per hop; other
// types in their own. Sums and averages of the three compressible types are the cast kernels with
// the element type itself on the wire; this family has all other pairs of type and reduction.
#ifndef COMPRESS_KERNELS_NONE_NONE_H_
#define COMPRESS_KERNELS_NONE_NONE_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/kernel_codec.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct NoneParameters {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
};

inline std::size_t encoded_bytes(const NoneParameters& parameters, std::size_t count) {
  return count * dtype_size(parameters.dtype);
}

namespace none {

/// The specification: one element at a time.
const KernelTable<NoneParameters>& reference_kernels();
/// Loops over tiles that the compiler vectorises for a Highway target; null if this build has none
/// for it.
const KernelTable<NoneParameters>* simd_kernels(std::int64_t target);

}  // namespace none
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_NONE_NONE_H_
