#include "compress_kernels/cast/cast_agent.cuh"
#include "compress_kernels/cuda/kernels.cuh"

RINGPRESS_CUDA_FAMILY(CastParameters, cast)
