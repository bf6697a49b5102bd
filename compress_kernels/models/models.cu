#include "compress_kernels/cuda/projection_kernels.cuh"
#include "compress_kernels/models/model_agent.cuh"

namespace ringpress::compress_kernels::cuda {

RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::ChangeTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::AverageTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::DifferenceTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::HalfDifferenceTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::WidenTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::MeanTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::LengthTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::AddValuesTask)
RINGPRESS_CUDA_PROJECTION(models::ModelAgent, models::TotalTask)

}  // namespace ringpress::compress_kernels::cuda
