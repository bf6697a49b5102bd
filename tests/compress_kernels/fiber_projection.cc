// The kernels of projections, on fibers.
#include <algorithm>
#include <cstddef>

#include "compress_kernels/core/element.h"
#include "compress_kernels/device_family.h"
#include "compress_kernels/models/model_agent.cuh"
#include "compress_kernels/powersgd/column_agent.cuh"
#include "compress_kernels/powersgd/matrix_agent.cuh"
#include "compress_kernels/powersgd/task_projection.h"
#include "compress_kernels/randk/randk_agent.cuh"
#include "compress_kernels/randk/task_projection.h"
#include "compress_kernels/scales/scales_agent.cuh"
#include "tests/compress_kernels/fiber_backend.h"
#include "tests/support/simt.h"

namespace ringpress::compress_kernels::testing {
namespace {

using ringpress::testing::FiberSimt;
using ringpress::testing::LaunchShape;

/// True if an agent has such a task.
template <typename Agent, typename Task>
concept Runs = requires(const FiberSimt& simt, const Task& task) {
  Agent::run(simt, task);
};

template <typename T, typename Task>
void run_task(const FiberSimt& simt, const Task& task) {
  if constexpr (Runs<core::StateAgent<FiberSimt, T>, Task>) {
    core::StateAgent<FiberSimt, T>::run(simt, task);
  } else if constexpr (Runs<randk::RandomAgent<FiberSimt, T>, Task>) {
    randk::RandomAgent<FiberSimt, T>::run(simt, task);
  } else if constexpr (Runs<powersgd::ColumnAgent<FiberSimt, T>, Task>) {
    powersgd::ColumnAgent<FiberSimt, T>::run(simt, task);
  } else if constexpr (Runs<models::ModelAgent<FiberSimt, T>, Task>) {
    models::ModelAgent<FiberSimt, T>::run(simt, task);
  } else if constexpr (Runs<scales::ScalesAgent<FiberSimt, T>, Task>) {
    scales::ScalesAgent<FiberSimt, T>::run(simt, task);
  } else {
    powersgd::MatrixAgent<FiberSimt, T>::run(simt, task);
  }
}

/// Fewer warps than there are pieces, so that some take several.
template <typename Task>
LaunchShape shape_of(unsigned warps, std::size_t count) {
  LaunchShape shape;
  if constexpr (Task::kByBlocks) {
    shape.blocks = static_cast<unsigned>(count);
    shape.warps = FiberSimt::kBlockThreads / core::kLanes;
    shape.block_memory = core::kBlockMemory;
  } else {
    shape.blocks = static_cast<unsigned>(std::clamp<std::size_t>((count + 1) / 2 / warps, 1, 3));
    shape.warps = warps;
    shape.warp_memory = Task::kWarpMemory;
  }
  return shape;
}

}  // namespace

template <typename Task>
Status FiberBackend::launch(Stream, DType dtype, const Task& task, std::size_t count) const {
  core::visit_compressible(dtype, [&](auto element) {
    ringpress::testing::launch(shape_of<Task>(warps, count), seed, [&](const FiberSimt& simt) {
      run_task<typename decltype(element)::type>(simt, task);
    });
  });
  return Status::ok();
}

#define RINGPRESS_PROJECTION_ON_FIBERS(Task) \
  template Status FiberBackend::launch(Stream, DType, const Task&, std::size_t) const;

RINGPRESS_PROJECTION_ON_FIBERS(core::OfferTask)
RINGPRESS_PROJECTION_ON_FIBERS(core::MarkTask)
RINGPRESS_PROJECTION_ON_FIBERS(randk::GatherTask)
RINGPRESS_PROJECTION_ON_FIBERS(randk::ScanTask)
RINGPRESS_PROJECTION_ON_FIBERS(randk::KeepTask)
RINGPRESS_PROJECTION_ON_FIBERS(randk::ScatterTask)
RINGPRESS_PROJECTION_ON_FIBERS(randk::AdvanceTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::StartTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::LeftTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::OrthonormaliseTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::RightTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::AddTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::SettleTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::RebuildTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::StateTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::LoadTask)
RINGPRESS_PROJECTION_ON_FIBERS(powersgd::StoreTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::ChangeTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::AverageTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::DifferenceTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::HalfDifferenceTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::WidenTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::MeanTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::LengthTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::AddValuesTask)
RINGPRESS_PROJECTION_ON_FIBERS(models::TotalTask)
RINGPRESS_PROJECTION_ON_FIBERS(scales::DivideTask)
RINGPRESS_PROJECTION_ON_FIBERS(scales::MultiplyTask)
RINGPRESS_PROJECTION_ON_FIBERS(scales::LearnTask)
RINGPRESS_PROJECTION_ON_FIBERS(scales::MeasureTask)
RINGPRESS_PROJECTION_ON_FIBERS(scales::SettleTask)

}  // namespace ringpress::compress_kernels::testing

RINGPRESS_DEVICE_PROJECTION(kRandk, testing::FiberBackend, randk::TaskProjection)
RINGPRESS_DEVICE_PROJECTION(kPowersgd, testing::FiberBackend, powersgd::TaskProjection)
