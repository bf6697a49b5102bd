// The grids of regridding_codec.h.
#ifndef COMPRESS_KERNELS_Q_REGRIDDING_PARAMETERS_H_
#define COMPRESS_KERNELS_Q_REGRIDDING_PARAMETERS_H_

#include <cstddef>

#include "compress_kernels/lloyd/device_parameters.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "compress_kernels/q/wider_forms.h"
#include "compress_kernels/uniform/uniform.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels {

/// A hop from one grid to the other, in a kernel.
struct RegriddingParameters {
  UniformParameters uniform;
  LloydDeviceParameters sums;
  bool to_sums = true;
};

namespace q {

/// What a partial sum is encoded with, by a codec that has `parameters` for all else.
inline LloydParameters sum_parameters(const UniformParameters& parameters, Contributions form) {
  LloydParameters sum;
  sum.bits = parameters.bits;
  for (std::size_t most = 44; form.summed > most && sum.bits < kMostBits; most *= 4) ++sum.bits;
  sum.unbiased = parameters.rounding == Rounding::kStochastic;
  const std::size_t smallest = sum.unbiased ? kSmallestUnbiasedLloydBlock : kSmallestLloydBlock;
  sum.block = parameters.block < smallest ? smallest : parameters.block;
  sum.dtype = parameters.dtype;
  return sum;
}

}  // namespace q
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_Q_REGRIDDING_PARAMETERS_H_
