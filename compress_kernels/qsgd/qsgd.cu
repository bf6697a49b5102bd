#include "compress_kernels/cuda/kernels.cuh"
#include "compress_kernels/qsgd/device_kernels.h"
#include "compress_kernels/qsgd/qsgd_agent.cuh"
#include "compress_kernels/qsgd/summary_agent.cuh"

RINGPRESS_CUDA_KERNELS(QsgdDeviceParameters, qsgd)

namespace ringpress::compress_kernels::cuda {

template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksOfGeneralKernels)
    summary_kernel(const __grid_constant__ qsgd::SummaryTask task) {
  qsgd::SummaryAgent<AnyHardware, T>::summarise(AnyHardware{}, task);
}

__global__ void __launch_bounds__(kThreads, kBlocksOfGeneralKernels)
    merge_kernel(const __grid_constant__ qsgd::MergeTask task) {
  qsgd::merge_summaries(AnyHardware{}, task);
}

template <>
int launch(const qsgd::SummaryTask& task, const Target& target) {
  static_assert(qsgd::kSummaryWarpMemory <= kLargestWarpMemory);
  return core::visit_compressible(target.dtype, [&](auto element) {
    return launch_kernel<qsgd::SummaryTask>(summary_kernel<typename decltype(element)::type>, task,
                                            target, kLargestWarpMemory);
  });
}

template <>
int launch(const qsgd::MergeTask& task, const Target& target) {
  return launch_kernel<qsgd::MergeTask>(merge_kernel, task, target, 0);
}

}  // namespace ringpress::compress_kernels::cuda

RINGPRESS_DEVICE_CODEC(kQsgd, cuda::CudaBackend, qsgd::DeviceKernels)
