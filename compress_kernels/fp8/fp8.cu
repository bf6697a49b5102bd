#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/fp8/fp8_agent.cuh"

RINGPRESS_CUDA_KERNELS(Fp8Parameters, fp8)
RINGPRESS_DEVICE_CODEC(kFp8, cuda::CudaBackend, PlainKernels<Fp8Parameters>)
