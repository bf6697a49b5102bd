#include <cuda_runtime_api.h>

#include "compress_kernels/chunk_topk/chunk_topk_agent.cuh"
#include "compress_kernels/chunk_topk/device_kernels.h"
#include "compress_kernels/cuda/backend.cuh"
#include "compress_kernels/cuda/hardware.cuh"
#include "compress_kernels/cuda/tuning.h"

namespace ringpress::compress_kernels::cuda {

using BlockHardware = Hardware<0>;

template <typename Agent, typename Task>
__global__ void __launch_bounds__(BlockHardware::kBlockThreads, kBlocksOfGeneralKernels)
    chunk_topk_kernel(const __grid_constant__ Task task) {
  Agent::run(BlockHardware{}, task);
}

template <typename Task>
int launch_by_tiles(const Task& task, const Target& target) {
  static_assert(sizeof(Task) <= 4096);
  return chunk_topk::visit_agent<BlockHardware>(task, target.dtype, [&](auto agent) {
    const std::size_t shards = target.extent.shards;
    const dim3 blocks(chunk_topk::blocks_for(target.extent, target.most_blocks / shards),
                      static_cast<unsigned>(shards));
    chunk_topk_kernel<typename decltype(agent)::type, Task>
        <<<blocks, BlockHardware::kBlockThreads, chunk_topk::kBlockMemory,
           static_cast<cudaStream_t>(target.stream)>>>(task);
    return static_cast<int>(cudaGetLastError());
  });
}

template <>
int launch(const chunk_topk::EncodeTask& task, const Target& target) {
  return launch_by_tiles(task, target);
}
template <>
int launch(const chunk_topk::DecodeTask& task, const Target& target) {
  return launch_by_tiles(task, target);
}
template <>
int launch(const chunk_topk::HopTask& task, const Target& target) {
  return launch_by_tiles(task, target);
}

}  // namespace ringpress::compress_kernels::cuda

RINGPRESS_DEVICE_CODEC(kChunkTopk, cuda::CudaBackend, chunk_topk::DeviceKernels)
