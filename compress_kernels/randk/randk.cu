#include "compress_kernels/cuda/projection_kernels.cuh"
#include "compress_kernels/randk/randk_agent.cuh"
#include "compress_kernels/randk/task_projection.h"

namespace ringpress::compress_kernels::cuda {

RINGPRESS_CUDA_PROJECTION(core::StateAgent, core::OfferTask)
RINGPRESS_CUDA_PROJECTION(core::StateAgent, core::MarkTask)
RINGPRESS_CUDA_PROJECTION(randk::RandomAgent, randk::GatherTask)
RINGPRESS_CUDA_PROJECTION(randk::RandomAgent, randk::ScanTask)
RINGPRESS_CUDA_PROJECTION(randk::RandomAgent, randk::KeepTask)
RINGPRESS_CUDA_PROJECTION(randk::RandomAgent, randk::ScatterTask)
RINGPRESS_CUDA_PROJECTION(randk::RandomAgent, randk::AdvanceTask)

}  // namespace ringpress::compress_kernels::cuda

RINGPRESS_DEVICE_PROJECTION(kRandk, cuda::CudaBackend, randk::TaskProjection)
