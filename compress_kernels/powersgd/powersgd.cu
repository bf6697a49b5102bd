#include "compress_kernels/cuda/projection_kernels.cuh"
#include "compress_kernels/powersgd/column_agent.cuh"
#include "compress_kernels/powersgd/matrix_agent.cuh"
#include "compress_kernels/powersgd/task_projection.h"

namespace ringpress::compress_kernels::cuda {

RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::StartTask)
RINGPRESS_CUDA_PROJECTION(powersgd::MatrixAgent, powersgd::LeftTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::OrthonormaliseTask)
RINGPRESS_CUDA_PROJECTION(powersgd::MatrixAgent, powersgd::RightTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::AddTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::SettleTask)
RINGPRESS_CUDA_PROJECTION(powersgd::MatrixAgent, powersgd::RebuildTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::StateTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::LoadTask)
RINGPRESS_CUDA_PROJECTION(powersgd::ColumnAgent, powersgd::StoreTask)

}  // namespace ringpress::compress_kernels::cuda

RINGPRESS_DEVICE_PROJECTION(kPowersgd, cuda::CudaBackend, powersgd::TaskProjection)
