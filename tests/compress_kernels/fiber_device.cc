#include "tests/compress_kernels/fiber_device.h"

#include <algorithm>

#include "compress_kernels/cast/cast_agent.cuh"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/fp8/fp8_agent.cuh"
#include "compress_kernels/lloyd/lloyd_agent.cuh"
#include "compress_kernels/q/regridding_agent.cuh"
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

}  // namespace

template <typename Task>
Status FiberBackend::launch(Stream, DType dtype, const Task& task, Extent extent) const {
  const std::size_t tiles = (extent.largest_count + kTileElements - 1) / kTileElements;
  const std::size_t blocks = std::clamp<std::size_t>((tiles + 1) / 2 / warps, 1, 3);
  visit_format_of(task.parameters, [&](auto format) {
    using Format = typename decltype(format)::type;
    const LaunchShape shape{static_cast<unsigned>(blocks), static_cast<unsigned>(extent.shards),
                            warps, Format::kWarpMemory};
    core::visit_compressible(dtype, [&](auto element) {
      using Agent = core::TileAgent<FiberSimt, Format, typename decltype(element)::type>;
      ringpress::testing::launch(shape, seed,
                                 [&](const FiberSimt& simt) { run<Agent>(simt, task); });
    });
  });
  return Status::ok();
}

#define RINGPRESS_ON_FIBERS(P)                                                                   \
  template Status FiberBackend::launch(Stream, DType, const core::EncodeTask<P>&, Extent) const; \
  template Status FiberBackend::launch(Stream, DType, const core::DecodeTask<P>&, Extent) const; \
  template Status FiberBackend::launch(Stream, DType, const core::HopTask<P>&, Extent) const;

RINGPRESS_ON_FIBERS(UniformParameters)
RINGPRESS_ON_FIBERS(CastParameters)
RINGPRESS_ON_FIBERS(Fp8Parameters)
RINGPRESS_ON_FIBERS(TernParameters)
RINGPRESS_ON_FIBERS(LloydDeviceParameters)
RINGPRESS_ON_FIBERS(RegriddingParameters)

}  // namespace ringpress::compress_kernels::testing
