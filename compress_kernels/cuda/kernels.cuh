// The kernels: each hands its arguments to an agent. A family's .cu file instantiates them with
// RINGPRESS_CUDA_KERNELS, and defines the family (device_family.h).
#ifndef COMPRESS_KERNELS_CUDA_KERNELS_CUH_
#define COMPRESS_KERNELS_CUDA_KERNELS_CUH_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/cuda/backend.cuh"
#include "compress_kernels/cuda/hardware.cuh"
#include "compress_kernels/cuda/tuning.h"
#include "compress_kernels/task_codec.h"

namespace ringpress::compress_kernels::cuda {

/// What a format is asked for before it is known how much memory it wants.
struct AnyHardware : Hardware<kLargestWarpMemory> {};

/// Of a multiprocessor: so many registers may each kernel take.
template <typename Format>
constexpr unsigned least_blocks() {
  if constexpr (requires { Format::kLeastBlocks; }) {
    return Format::kLeastBlocks;
  } else {
    return Format::kKnowsWholeTiles && Format::kWarpMemory == 0 ? kBlocks : kBlocksOfGeneralKernels;
  }
}

template <typename Format, typename T>
__global__ void __launch_bounds__(kThreads, least_blocks<Format>())
    encode_kernel(const __grid_constant__ core::EncodeTask<typename Format::Parameters> task) {
  core::AgentOf<AnyHardware, Format, T>::encode(AnyHardware{}, task);
}

template <typename Format, typename T>
__global__ void __launch_bounds__(kThreads, least_blocks<Format>())
    decode_kernel(const __grid_constant__ core::DecodeTask<typename Format::Parameters> task) {
  core::AgentOf<AnyHardware, Format, T>::decode(AnyHardware{}, task);
}

template <typename Format, typename T>
__global__ void __launch_bounds__(kThreads, least_blocks<Format>())
    hop_kernel(const __grid_constant__ core::HopTask<typename Format::Parameters> task) {
  core::AgentOf<AnyHardware, Format, T>::decode_add_encode(AnyHardware{}, task);
}

template <typename Format, typename T, typename P>
constexpr auto kernel_of(const core::EncodeTask<P>&) {
  return encode_kernel<Format, T>;
}
template <typename Format, typename T, typename P>
constexpr auto kernel_of(const core::DecodeTask<P>&) {
  return decode_kernel<Format, T>;
}
template <typename Format, typename T, typename P>
constexpr auto kernel_of(const core::HopTask<P>&) {
  return hop_kernel<Format, T>;
}

/// Bytes of shared memory of each warp.
template <typename Format>
constexpr std::size_t warp_memory() {
  static_assert(Format::kWarpMemory <= kLargestWarpMemory);
  return Format::kWarpMemory == 0 ? 0 : kLargestWarpMemory;
}

/// How many blocks of a kernel run at once on the whole device. Each takes several tiles: what came
/// in a second wave would leave a part of the device without work. A failure is the launch's to
/// tell.
template <typename Task>
std::size_t blocks_at_once(void (*kernel)(Task), std::size_t memory, const Target& target) {
  int blocks = 0;
  const cudaError_t error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, kThreads, memory);
  forget(error);
  return target.multiprocessors * static_cast<std::size_t>(blocks > 0 ? blocks : 1);
}

/// `warp_memory`: bytes of shared memory of each warp.
template <typename Task>
int launch_kernel(void (*kernel)(Task), const Task& task, const Target& target,
                  std::size_t warp_memory) {
  static_assert(sizeof(Task) <= 4096);
  constexpr unsigned kWarps = kThreads / kWarpLanes;
  const std::size_t tiles = (target.extent.largest_count + kTileElements - 1) / kTileElements;
  const std::size_t shards = target.extent.shards;
  const std::size_t memory = kWarps * warp_memory;
  const std::size_t most =
      std::max<std::size_t>(blocks_at_once(kernel, memory, target) / shards, 1);
  const auto blocks = static_cast<unsigned>(std::min((tiles + kWarps - 1) / kWarps, most));
  kernel<<<dim3(blocks, static_cast<unsigned>(shards)), kThreads, memory,
           static_cast<cudaStream_t>(target.stream)>>>(task);
  return static_cast<int>(cudaGetLastError());
}

template <typename Format, typename T, typename Task>
int launch_format(const Task& task, const Target& target) {
  return launch_kernel<Task>(kernel_of<Format, T>(task), task, target, warp_memory<Format>());
}

/// `visit(parameters, visitor)` is the family's visit_format<AnyHardware>.
template <typename Task, typename Visit>
int launch_family(const Task& task, const Target& target, Visit&& visit) {
  return visit(task.parameters, [&](auto format) {
    return core::visit_compressible(target.dtype, [&](auto element) {
      return launch_format<typename decltype(format)::type, typename decltype(element)::type>(
          task, target);
    });
  });
}

}  // namespace ringpress::compress_kernels::cuda

/// Defines launch() for the tasks of a family.
#define RINGPRESS_CUDA_LAUNCH(Task, Parameters, family)                          \
  template <>                                                                    \
  int launch(const Task<Parameters>& task, const Target& target) {               \
    return launch_family(task, target, [](const Parameters& p, auto&& visitor) { \
      return family::visit_format<AnyHardware>(p, visitor);                      \
    });                                                                          \
  }
#define RINGPRESS_CUDA_KERNELS(Parameters, family)            \
  namespace ringpress::compress_kernels::cuda {               \
  RINGPRESS_CUDA_LAUNCH(core::EncodeTask, Parameters, family) \
  RINGPRESS_CUDA_LAUNCH(core::DecodeTask, Parameters, family) \
  RINGPRESS_CUDA_LAUNCH(core::HopTask, Parameters, family)    \
  }

#endif  // COMPRESS_KERNELS_CUDA_KERNELS_CUH_
