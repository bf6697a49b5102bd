#include "compress_kernels/cast/cast_agent.cuh"
#include "compress_kernels/cuda/kernels.cuh"

RINGPRESS_CUDA_KERNELS(CastParameters, cast)
RINGPRESS_DEVICE_CODEC(kCast, cuda::CudaBackend, PlainKernels<CastParameters>)
