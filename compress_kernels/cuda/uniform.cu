#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/uniform/uniform_agent.cuh"

RINGPRESS_CUDA_FAMILY(UniformParameters, uniform)
