// Kernels of core/tile_agent.cuh on fibers, as cuda/kernels.cuh has them for CUDA. Knows no family.
#ifndef TESTS_COMPRESS_KERNELS_FIBER_KERNELS_H_
#define TESTS_COMPRESS_KERNELS_FIBER_KERNELS_H_

#include <algorithm>
#include <cstddef>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/tile_agent.cuh"
#include "compress_kernels/device_family.h"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/support/simt.h"

namespace ringpress::compress_kernels::testing {

using ringpress::testing::FiberSimt;
using ringpress::testing::LaunchShape;

template <typename Agent, typename P>
void run_agent(const FiberSimt& simt, const core::EncodeTask<P>& task) {
  Agent::encode(simt, task);
}
template <typename Agent, typename P>
void run_agent(const FiberSimt& simt, const core::DecodeTask<P>& task) {
  Agent::decode(simt, task);
}
template <typename Agent, typename P>
void run_agent(const FiberSimt& simt, const core::HopTask<P>& task) {
  Agent::decode_add_encode(simt, task);
}

inline LaunchShape shape_by_tiles(core::Extent extent, unsigned warps, std::size_t warp_memory) {
  const std::size_t tiles = (extent.largest_count + kTileElements - 1) / kTileElements;
  const std::size_t blocks = std::clamp<std::size_t>((tiles + 1) / 2 / warps, 1, 3);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(extent.shards), warps, warp_memory};
}

/// `visit(parameters, visitor)` is the family's visit_format<FiberSimt>.
template <typename Task, typename Visit>
Status launch_family(const FiberBackend& backend, DType dtype, const Task& task,
                     core::Extent extent, Visit&& visit) {
  visit(task.parameters, [&](auto format) {
    using Format = typename decltype(format)::type;
    const LaunchShape shape = shape_by_tiles(extent, backend.warps, Format::kWarpMemory);
    core::visit_compressible(dtype, [&](auto element) {
      using Agent = core::AgentOf<FiberSimt, Format, typename decltype(element)::type>;
      ringpress::testing::launch(shape, backend.seed,
                                 [&](const FiberSimt& simt) { run_agent<Agent>(simt, task); });
    });
  });
  return Status::ok();
}

}  // namespace ringpress::compress_kernels::testing

/// Defines launch() for the tasks of a family.
#define RINGPRESS_FIBER_LAUNCH(Task, Parameters, family)                         \
  template <>                                                                    \
  Status FiberBackend::launch(Stream, DType dtype, const Task<Parameters>& task, \
                              core::Extent extent) const {                       \
    const auto visit = [](const Parameters& p, auto&& visitor) {                 \
      family::visit_format<FiberSimt>(p, visitor);                               \
    };                                                                           \
    return launch_family(*this, dtype, task, extent, visit);                     \
  }
#define RINGPRESS_FIBER_KERNELS(Parameters, family)            \
  namespace ringpress::compress_kernels::testing {             \
  RINGPRESS_FIBER_LAUNCH(core::EncodeTask, Parameters, family) \
  RINGPRESS_FIBER_LAUNCH(core::DecodeTask, Parameters, family) \
  RINGPRESS_FIBER_LAUNCH(core::HopTask, Parameters, family)    \
  }

#endif  // TESTS_COMPRESS_KERNELS_FIBER_KERNELS_H_
