// The kernels of projections: each hands its arguments to an agent. A codec's .cu file instantiates
// them with RINGPRESS_CUDA_PROJECTION.
#ifndef COMPRESS_KERNELS_CUDA_PROJECTION_KERNELS_CUH_
#define COMPRESS_KERNELS_CUDA_PROJECTION_KERNELS_CUH_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/projection_agent.cuh"
#include "compress_kernels/cuda/backend.cuh"
#include "compress_kernels/cuda/hardware.cuh"
#include "compress_kernels/cuda/tuning.h"
#include "compress_kernels/device_family.h"

namespace ringpress::compress_kernels::cuda {

template <typename Task>
using TaskHardware = Hardware<Task::kWarpMemory>;

template <typename Task>
constexpr unsigned threads_of() {
  return Task::kByBlocks ? TaskHardware<Task>::kBlockThreads : kThreads;
}

/// Without a number of blocks the compiler for 10.0 takes too few registers.
template <typename Agent, typename Task>
__global__ void __launch_bounds__(threads_of<Task>(), kBlocksOfGeneralKernels)
    projection_kernel(const __grid_constant__ Task task) {
  Agent::run(TaskHardware<Task>{}, task);
}

template <typename Agent, typename Task>
int launch_agent(const Task& task, const ProjectionTarget& target) {
  static_assert(Task::kWarpMemory <= kLargestWarpMemory);
  constexpr unsigned kWarps = kThreads / kWarpLanes;
  const std::size_t warps =
      std::min<std::size_t>((target.count + kWarps - 1) / kWarps, target.most_blocks);
  const auto blocks = static_cast<unsigned>(Task::kByBlocks ? target.count : warps);
  const std::size_t memory = Task::kByBlocks ? core::kBlockMemory : kWarps * Task::kWarpMemory;
  projection_kernel<Agent, Task>
      <<<blocks, threads_of<Task>(), memory, static_cast<cudaStream_t>(target.stream)>>>(task);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace ringpress::compress_kernels::cuda

/// Defines launch_projection() for a task of an agent.
#define RINGPRESS_CUDA_PROJECTION(Agent, Task)                               \
  template <>                                                                \
  int launch_projection(const Task& task, const ProjectionTarget& target) {  \
    return core::visit_compressible(target.dtype, [&](auto element) {        \
      using Element = typename decltype(element)::type;                      \
      return launch_agent<Agent<TaskHardware<Task>, Element>>(task, target); \
    });                                                                      \
  }

#endif  // COMPRESS_KERNELS_CUDA_PROJECTION_KERNELS_CUH_
