// Blocks have a power of two of elements: kernels shift where a division would cost most.
#ifndef COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_
#define COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_

#include <bit>
#include <cstddef>
#include <type_traits>

#include "compress_kernels/core/host_device.h"

namespace ringpress::compress_kernels::core {

/// For powers of two below 2^16.
RINGPRESS_HOST_DEVICE constexpr unsigned log2_of(std::size_t power) {
  const auto word = static_cast<unsigned>(power);
#if defined(__CUDA_ARCH__)
  if (!std::is_constant_evaluated()) {
    return static_cast<unsigned>(31 - __clz(static_cast<int>(word)));
  }
#endif
  return static_cast<unsigned>(std::countr_zero(word));
}

/// Blocks of `block` elements that `count` elements make, the last one perhaps not full.
RINGPRESS_HOST_DEVICE constexpr std::size_t blocks_of(std::size_t count, std::size_t block) {
  return (count + block - 1) >> log2_of(block);
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_POWER_OF_TWO_H_
