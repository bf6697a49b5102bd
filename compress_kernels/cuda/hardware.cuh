// The `Simt` of core/tile_agent.cuh that CUDA's hardware is.
#ifndef COMPRESS_KERNELS_CUDA_HARDWARE_CUH_
#define COMPRESS_KERNELS_CUDA_HARDWARE_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <cub/block/block_scan.cuh>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/narrow_floats.h"

namespace ringpress::compress_kernels::cuda {

inline constexpr unsigned kWarpLanes = 32;
/// Bytes of shared memory of a warp, in kernels that have any.
inline constexpr std::size_t kLargestWarpMemory = 4096 + 256;

/// The shared memory of a block, as much as it was launched with.
RINGPRESS_DEVICE float* shared_memory() {
  extern __shared__ __align__(16) float block_memory[];
  return block_memory;
}

/// Blocks have one dimension of threads. `kWarpMemory`: bytes of shared memory of each warp.
template <std::size_t kWarpMemory>
struct Hardware {
  /// In kernels whose blocks work together (core/projection_agent.cuh).
  static constexpr unsigned kBlockThreads = 256;

  RINGPRESS_DEVICE unsigned lane() const { return threadIdx.x % kWarpLanes; }
  RINGPRESS_DEVICE unsigned warp() const { return threadIdx.x / kWarpLanes; }
  RINGPRESS_DEVICE unsigned warps() const { return blockDim.x / kWarpLanes; }
  RINGPRESS_DEVICE unsigned block() const { return blockIdx.x; }
  RINGPRESS_DEVICE unsigned blocks() const { return gridDim.x; }
  RINGPRESS_DEVICE unsigned shard() const { return blockIdx.y; }

  template <typename T>
  RINGPRESS_DEVICE T load(const void* address) const {
    return *static_cast<const T*>(address);
  }
  template <typename T>
  RINGPRESS_DEVICE void store(void* address, const T& value) const {
    *static_cast<T*>(address) = value;
  }

  template <typename T, unsigned kCount>
  RINGPRESS_DEVICE void shuffle_xor(T (&values)[kCount], unsigned mask) const {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kCount; ++i) {
      values[i] = __shfl_xor_sync(0xFFFFFFFFu, values[i], static_cast<int>(mask));
    }
  }
  template <unsigned kWidth, unsigned kCount>
  RINGPRESS_DEVICE void look_up(std::uint32_t (&keys)[kCount], std::uint32_t entry) const {
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < kCount; ++i) {
      keys[i] = __shfl_sync(0xFFFFFFFFu, entry, static_cast<int>(keys[i]), kWidth);
    }
  }
  RINGPRESS_DEVICE bool any(bool value) const { return __any_sync(0xFFFFFFFFu, value) != 0; }
  RINGPRESS_DEVICE std::uint32_t ballot(bool value) const {
    return __ballot_sync(0xFFFFFFFFu, value);
  }
  RINGPRESS_DEVICE unsigned count_bits(std::uint32_t word) const {
    return static_cast<unsigned>(__popc(word));
  }
  RINGPRESS_DEVICE void atomic_add(std::uint32_t* at, std::uint32_t value) const {
    atomicAdd(at, value);
  }
  RINGPRESS_DEVICE void atomic_or(std::uint32_t* at, std::uint32_t value) const {
    atomicOr(at, value);
  }
  /// Before 8.0 the hardware has no instruction for two.
  template <typename T>
  RINGPRESS_DEVICE std::uint32_t narrow_pair(float a, float b) const {
#if __CUDA_ARCH__ >= 800
    std::uint32_t pair;
    if constexpr (std::is_same_v<T, core::Bfloat16>) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
    } else {
      static_assert(std::is_same_v<T, core::Float16>);
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(b), "f"(a));
    }
    return pair;
#else
    return core::narrow<T>(a).bits | static_cast<std::uint32_t>(core::narrow<T>(b).bits) << 16;
#endif
  }
  RINGPRESS_DEVICE void atomic_max(std::uint32_t* at, std::uint32_t value) const {
    atomicMax(at, value);
  }
  RINGPRESS_DEVICE std::uint32_t opaque(std::uint32_t word) const {
    asm volatile("" : "+r"(word));
    return word;
  }
  RINGPRESS_DEVICE void sync_warp() const {
    __syncwarp();
  }

  RINGPRESS_DEVICE void* warp_memory() const {
    return shared_memory() + warp() * (kWarpMemory / sizeof(float));
  }

  RINGPRESS_DEVICE void sync_block() const {
    __syncthreads();
  }
  RINGPRESS_DEVICE void* block_memory() const {
    return shared_memory();
  }
  template <typename T>
  RINGPRESS_DEVICE T exclusive_sum(const T& value, T& total) const {
    using Scan = cub::BlockScan<T, kBlockThreads, cub::BLOCK_SCAN_WARP_SCANS>;
    __shared__ typename Scan::TempStorage memory;
    T before;
    Scan(memory).ExclusiveSum(value, before, total);
    sync_block();
    return before;
  }
};

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_HARDWARE_CUH_
