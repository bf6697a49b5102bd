// Marks element functions that the host code and CUDA kernels share, and what is only called by
// kernels: the agents (core/tile_agent.cuh), which a compiler for the host takes too, for tests.
// Loops of agents are unrolled, so that arrays with their indices stay in registers, or rolled
// where that only makes much code.
#ifndef COMPRESS_KERNELS_CORE_HOST_DEVICE_H_
#define COMPRESS_KERNELS_CORE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define RINGPRESS_HOST_DEVICE __host__ __device__
#define RINGPRESS_DEVICE __device__ __forceinline__
#define RINGPRESS_UNROLL _Pragma("unroll")
#define RINGPRESS_ROLL _Pragma("unroll 1")
#define RINGPRESS_INLINE_LAMBDA __attribute__((always_inline))
#else
#define RINGPRESS_HOST_DEVICE
#define RINGPRESS_DEVICE inline
#define RINGPRESS_UNROLL
#define RINGPRESS_ROLL
#define RINGPRESS_INLINE_LAMBDA
#endif

#endif  // COMPRESS_KERNELS_CORE_HOST_DEVICE_H_
