#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/uniform/uniform_agent.cuh"

RINGPRESS_CUDA_KERNELS(UniformParameters, uniform)
RINGPRESS_DEVICE_CODEC(kUniform, cuda::CudaBackend, PlainKernels<UniformParameters>)
