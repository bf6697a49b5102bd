// Launching kernels: one specialisation for each task, in the .cu file of its family.
#ifndef COMPRESS_KERNELS_CUDA_LAUNCH_H_
#define COMPRESS_KERNELS_CUDA_LAUNCH_H_

#include <cstddef>

#include "compress_kernels/core/device_tasks.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::cuda {

/// Where a kernel goes.
struct Target {
  Stream stream = nullptr;  // A cudaStream_t.
  DType dtype = DType::kFloat32;
  core::Extent extent;
  unsigned most_blocks = 1;  // In all, where a family does not ask how many run at once.
  unsigned multiprocessors = 1;
};

/// A cudaError_t. `Task`: core::EncodeTask and the like, or what a family has besides.
template <typename Task>
int launch(const Task& task, const Target& target);

/// Where a kernel of a projection goes.
struct ProjectionTarget {
  Stream stream = nullptr;  // A cudaStream_t.
  DType dtype = DType::kFloat32;
  std::size_t count = 1;     // As in core/projection_tasks.h.
  unsigned most_blocks = 1;  // Of a task by pieces.
};

/// A cudaError_t.
template <typename Task>
int launch_projection(const Task& task, const ProjectionTarget& target);

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_LAUNCH_H_
