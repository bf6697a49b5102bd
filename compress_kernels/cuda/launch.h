// Launching kernels: one overload for each operation and family, or task of a projection, each in
// the family's .cu file.
#ifndef COMPRESS_KERNELS_CUDA_LAUNCH_H_
#define COMPRESS_KERNELS_CUDA_LAUNCH_H_

#include <cstddef>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/device_plan.h"
#include "compress_kernels/qsgd/summary_tasks.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::cuda {

/// Where a kernel goes.
struct Target {
  Stream stream = nullptr;  // A cudaStream_t.
  DType dtype = DType::kFloat32;
  core::Extent extent;
  unsigned most_blocks = 1;  // In all.
};

/// A cudaError_t.
template <typename Parameters>
int launch(const core::EncodeTask<Parameters>& task, const Target& target);
template <typename Parameters>
int launch(const core::DecodeTask<Parameters>& task, const Target& target);
template <typename Parameters>
int launch(const core::HopTask<Parameters>& task, const Target& target);
int launch(const qsgd::SummaryTask& task, const Target& target);
int launch(const qsgd::MergeTask& task, const Target& target);

/// Where a kernel of a projection goes.
struct ProjectionTarget {
  Stream stream = nullptr;  // A cudaStream_t.
  DType dtype = DType::kFloat32;
  std::size_t count = 1;     // As in compress_kernels/task_projection.h.
  unsigned most_blocks = 1;  // Of a task by pieces.
};

/// A cudaError_t.
template <typename Task>
int launch_projection(const Task& task, const ProjectionTarget& target);

}  // namespace ringpress::compress_kernels::cuda

#endif  // COMPRESS_KERNELS_CUDA_LAUNCH_H_
