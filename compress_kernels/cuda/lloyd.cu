#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/lloyd/lloyd_agent.cuh"

RINGPRESS_CUDA_FAMILY(LloydDeviceParameters, lloyd)
