// The families of core/tile_agent.cuh, on fibers.
#include "compress_kernels/cast/cast_agent.cuh"
#include "compress_kernels/fp8/fp8_agent.cuh"
#include "compress_kernels/lloyd/lloyd_agent.cuh"
#include "compress_kernels/q/device_kernels.h"
#include "compress_kernels/q/regridding_agent.cuh"
#include "compress_kernels/qsgd/device_kernels.h"
#include "compress_kernels/qsgd/qsgd_agent.cuh"
#include "compress_kernels/qsgd/summary_agent.cuh"
#include "compress_kernels/task_codec.h"
#include "compress_kernels/tern/tern_agent.cuh"
#include "compress_kernels/uniform/uniform_agent.cuh"
#include "tests/compress_kernels/fiber_kernels.h"

RINGPRESS_FIBER_KERNELS(UniformParameters, uniform)
RINGPRESS_FIBER_KERNELS(CastParameters, cast)
RINGPRESS_FIBER_KERNELS(Fp8Parameters, fp8)
RINGPRESS_FIBER_KERNELS(TernParameters, tern)
RINGPRESS_FIBER_KERNELS(LloydDeviceParameters, lloyd)
RINGPRESS_FIBER_KERNELS(QsgdDeviceParameters, qsgd)

namespace ringpress::compress_kernels::testing {

RINGPRESS_FIBER_LAUNCH(core::HopTask, RegriddingParameters, q)

template <>
Status FiberBackend::launch(Stream, DType dtype, const qsgd::SummaryTask& task,
                            core::Extent extent) const {
  const LaunchShape shape = shape_by_tiles(extent, warps, qsgd::kSummaryWarpMemory);
  core::visit_compressible(dtype, [&](auto element) {
    using Agent = qsgd::SummaryAgent<FiberSimt, typename decltype(element)::type>;
    ringpress::testing::launch(shape, seed,
                               [&](const FiberSimt& simt) { Agent::summarise(simt, task); });
  });
  return Status::ok();
}

template <>
Status FiberBackend::launch(Stream, DType, const qsgd::MergeTask& task, core::Extent extent) const {
  ringpress::testing::launch(shape_by_tiles(extent, warps, 0), seed,
                             [&](const FiberSimt& simt) { qsgd::merge_summaries(simt, task); });
  return Status::ok();
}

}  // namespace ringpress::compress_kernels::testing

RINGPRESS_DEVICE_CODEC(kUniform, testing::FiberBackend, PlainKernels<UniformParameters>)
RINGPRESS_DEVICE_CODEC(kCast, testing::FiberBackend, PlainKernels<CastParameters>)
RINGPRESS_DEVICE_CODEC(kFp8, testing::FiberBackend, PlainKernels<Fp8Parameters>)
RINGPRESS_DEVICE_CODEC(kTern, testing::FiberBackend, PlainKernels<TernParameters>)
RINGPRESS_DEVICE_CODEC(kQ, testing::FiberBackend, q::DeviceKernels)
RINGPRESS_DEVICE_CODEC(kQsgd, testing::FiberBackend, qsgd::DeviceKernels)
