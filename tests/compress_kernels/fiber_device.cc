#include "tests/compress_kernels/fiber_device.h"

#include <algorithm>

#include "compress_kernels/cast/cast_agent.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/fp8/fp8_agent.cuh"
#include "compress_kernels/lloyd/lloyd_agent.cuh"
#include "compress_kernels/q/regridding_agent.cuh"
#include "compress_kernels/qsgd/qsgd_agent.cuh"
#include "compress_kernels/qsgd/summary_agent.cuh"
#include "compress_kernels/tern/tern_agent.cuh"
#include "compress_kernels/uniform/uniform_agent.cuh"
#include "tests/support/simt.h"

namespace ringpress::compress_kernels::testing {
namespace {

using ringpress::testing::FiberSimt;
using ringpress::testing::LaunchShape;

template <typename Visitor>
decltype(auto) visit_format_of(const UniformParameters& parameters, Visitor&& visitor) {
  return uniform::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const CastParameters& parameters, Visitor&& visitor) {
  return cast::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const Fp8Parameters& parameters, Visitor&& visitor) {
  return fp8::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const LloydDeviceParameters& parameters, Visitor&& visitor) {
  return lloyd::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const RegriddingParameters& parameters, Visitor&& visitor) {
  return q::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const TernParameters& parameters, Visitor&& visitor) {
  return tern::visit_format<FiberSimt>(parameters, visitor);
}
template <typename Visitor>
decltype(auto) visit_format_of(const QsgdDeviceParameters& parameters, Visitor&& visitor) {
  return qsgd::visit_format<FiberSimt>(parameters, visitor);
}

template <typename Agent, typename P>
void run(const FiberSimt& simt, const core::EncodeTask<P>& task) {
  Agent::encode(simt, task);
}
template <typename Agent, typename P>
void run(const FiberSimt& simt, const core::DecodeTask<P>& task) {
  Agent::decode(simt, task);
}
template <typename Agent, typename P>
void run(const FiberSimt& simt, const core::HopTask<P>& task) {
  Agent::decode_add_encode(simt, task);
}

LaunchShape shape_of(core::Extent extent, unsigned warps, std::size_t warp_memory) {
  const std::size_t tiles = (extent.largest_count + kTileElements - 1) / kTileElements;
  const std::size_t blocks = std::clamp<std::size_t>((tiles + 1) / 2 / warps, 1, 3);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(extent.shards), warps, warp_memory};
}

}  // namespace

template <typename Task>
Status FiberBackend::launch(Stream, DType dtype, const Task& task, core::Extent extent) const {
  visit_format_of(task.parameters, [&](auto format) {
    using Format = typename decltype(format)::type;
    const LaunchShape shape = shape_of(extent, warps, Format::kWarpMemory);
    core::visit_compressible(dtype, [&](auto element) {
      using Agent = core::AgentOf<FiberSimt, Format, typename decltype(element)::type>;
      ringpress::testing::launch(shape, seed,
                                 [&](const FiberSimt& simt) { run<Agent>(simt, task); });
    });
  });
  return Status::ok();
}

Status FiberBackend::launch(Stream, DType dtype, const qsgd::SummaryTask& task,
                            core::Extent extent) const {
  const LaunchShape shape = shape_of(extent, warps, qsgd::kSummaryWarpMemory);
  core::visit_compressible(dtype, [&](auto element) {
    using Agent = qsgd::SummaryAgent<FiberSimt, typename decltype(element)::type>;
    ringpress::testing::launch(shape, seed,
                               [&](const FiberSimt& simt) { Agent::summarise(simt, task); });
  });
  return Status::ok();
}

Status FiberBackend::launch(Stream, DType, const qsgd::MergeTask& task, core::Extent extent) const {
  ringpress::testing::launch(shape_of(extent, warps, 0), seed,
                             [&](const FiberSimt& simt) { qsgd::merge_summaries(simt, task); });
  return Status::ok();
}

#define RINGPRESS_ON_FIBERS(P)                                                                  \
  template Status FiberBackend::launch(Stream, DType, const core::EncodeTask<P>&, core::Extent) \
      const;                                                                                    \
  template Status FiberBackend::launch(Stream, DType, const core::DecodeTask<P>&, core::Extent) \
      const;                                                                                    \
  template Status FiberBackend::launch(Stream, DType, const core::HopTask<P>&, core::Extent) const;

RINGPRESS_ON_FIBERS(UniformParameters)
RINGPRESS_ON_FIBERS(CastParameters)
RINGPRESS_ON_FIBERS(Fp8Parameters)
RINGPRESS_ON_FIBERS(TernParameters)
RINGPRESS_ON_FIBERS(LloydDeviceParameters)
RINGPRESS_ON_FIBERS(RegriddingParameters)
RINGPRESS_ON_FIBERS(QsgdDeviceParameters)

}  // namespace ringpress::compress_kernels::testing
