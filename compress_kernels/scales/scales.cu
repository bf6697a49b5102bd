#include "compress_kernels/cuda/projection_kernels.cuh"
#include "compress_kernels/scales/scales_agent.cuh"

namespace ringpress::compress_kernels::cuda {

RINGPRESS_CUDA_PROJECTION(scales::ScalesAgent, scales::DivideTask)
RINGPRESS_CUDA_PROJECTION(scales::ScalesAgent, scales::MultiplyTask)
RINGPRESS_CUDA_PROJECTION(scales::ScalesAgent, scales::LearnTask)
RINGPRESS_CUDA_PROJECTION(scales::ScalesAgent, scales::MeasureTask)
RINGPRESS_CUDA_PROJECTION(scales::ScalesAgent, scales::SettleTask)

}  // namespace ringpress::compress_kernels::cuda
