#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/tern/tern_agent.cuh"

RINGPRESS_CUDA_KERNELS(TernParameters, tern)
RINGPRESS_DEVICE_CODEC(kTern, cuda::CudaBackend, PlainKernels<TernParameters>)
