// Blocks have a power of two of elements: kernels shift where a division would cost most.
#ifndef COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_
#define COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_

#include <cstddef>

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

/// For powers of two below 2^16.
RINGPRESS_HOST_DEVICE constexpr unsigned log2_of(std::size_t power) {
  unsigned log2 = 0;
  for (unsigned bit = 8; bit > 0; bit /= 2) {
    if ((power >> log2 >> bit) != 0) log2 += bit;
  }
  return log2;
}

/// Blocks of `block` elements that `count` elements make, the last one perhaps not full.
RINGPRESS_HOST_DEVICE constexpr std::size_t blocks_of(std::size_t count, std::size_t block) {
  return (count + block - 1) >> log2_of(block);
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_
