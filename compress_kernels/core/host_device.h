// Marks element functions that the host code and CUDA kernels share.
#ifndef COMPRESS_KERNELS_CORE_HOST_DEVICE_H_
#define COMPRESS_KERNELS_CORE_HOST_DEVICE_H_

#if defined(__CUDACC__)
#define RINGPRESS_HOST_DEVICE __host__ __device__
#else
#define RINGPRESS_HOST_DEVICE
#endif

#endif  // COMPRESS_KERNELS_CORE_HOST_DEVICE_H_
