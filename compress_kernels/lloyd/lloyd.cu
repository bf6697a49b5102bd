#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/lloyd/lloyd_agent.cuh"

// A part of q: q/device_kernels.h.
RINGPRESS_CUDA_KERNELS(LloydDeviceParameters, lloyd)
