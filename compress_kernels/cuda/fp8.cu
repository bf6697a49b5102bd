#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/fp8/fp8_agent.cuh"

RINGPRESS_CUDA_FAMILY(Fp8Parameters, fp8)
