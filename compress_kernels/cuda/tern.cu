#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/tern/tern_agent.cuh"

RINGPRESS_CUDA_FAMILY(TernParameters, tern)
