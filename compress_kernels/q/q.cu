#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/q/device_kernels.h"
#include "compress_kernels/q/regridding_agent.cuh"

// Only hops lead from one grid to another.
namespace ringpress::compress_kernels::cuda {
RINGPRESS_CUDA_LAUNCH(core::HopTask, RegriddingParameters, q)
}

RINGPRESS_DEVICE_CODEC(kQ, cuda::CudaBackend, q::DeviceKernels)
