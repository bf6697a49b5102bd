// The kernels of topk:select=chunk, on fibers.
#include "compress_kernels/chunk_topk/chunk_topk_agent.cuh"
#include "compress_kernels/chunk_topk/device_kernels.h"
#include "compress_kernels/device_family.h"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/support/simt.h"

namespace ringpress::compress_kernels::testing {
namespace {

using ringpress::testing::FiberSimt;
using ringpress::testing::LaunchShape;

/// By blocks that have a tile each; fewer than there are tiles, so that some take several.
template <typename Task>
Status launch_by_tiles(std::uint32_t seed, DType dtype, const Task& task, core::Extent extent) {
  LaunchShape shape;
  shape.blocks = chunk_topk::blocks_for(extent, chunk_topk::tiles_of(extent.largest_count) / 2);
  shape.shards = static_cast<unsigned>(extent.shards);
  shape.warps = FiberSimt::kBlockThreads / core::kLanes;
  shape.block_memory = chunk_topk::kBlockMemory;
  chunk_topk::visit_agent<FiberSimt>(task, dtype, [&](auto agent) {
    using Agent = typename decltype(agent)::type;
    ringpress::testing::launch(shape, seed, [&](const FiberSimt& simt) { Agent::run(simt, task); });
  });
  return Status::ok();
}

}  // namespace

template <>
Status FiberBackend::launch(Stream, DType dtype, const chunk_topk::EncodeTask& task,
                            core::Extent extent) const {
  return launch_by_tiles(seed, dtype, task, extent);
}
template <>
Status FiberBackend::launch(Stream, DType dtype, const chunk_topk::DecodeTask& task,
                            core::Extent extent) const {
  return launch_by_tiles(seed, dtype, task, extent);
}
template <>
Status FiberBackend::launch(Stream, DType dtype, const chunk_topk::HopTask& task,
                            core::Extent extent) const {
  return launch_by_tiles(seed, dtype, task, extent);
}

}  // namespace ringpress::compress_kernels::testing

RINGPRESS_DEVICE_CODEC(kChunkTopk, testing::FiberBackend, chunk_topk::DeviceKernels)
