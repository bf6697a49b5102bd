// A DeviceProjection whose kernels `Backend` launches:
//
//   Status Backend::launch(Stream, DType, const Task&, std::size_t count) const
//
// for each task of */device_tasks.h; `count`: pieces of a core::WarpTask, blocks of a
// core::BlockTask.
#ifndef COMPRESS_KERNELS_TASK_PROJECTION_H_
#define COMPRESS_KERNELS_TASK_PROJECTION_H_

#include <memory>
#include <utility>
#include <variant>

#include "compress_kernels/powersgd/task_projection.h"
#include "compress_kernels/projection_plan.h"
#include "compress_kernels/randk/task_projection.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels {

template <typename Backend>
std::unique_ptr<DeviceProjection> make_task_projection(std::unique_ptr<Codec> codec,
                                                       const ProjectionPlan& plan,
                                                       Backend backend) {
  if (const auto* power = std::get_if<powersgd::DeviceParameters>(&plan.parameters)) {
    return std::make_unique<powersgd::TaskProjection<Backend>>(std::move(codec), *power,
                                                               std::move(backend));
  }
  return std::make_unique<randk::TaskProjection<Backend>>(
      std::move(codec), std::get<randk::DeviceParameters>(plan.parameters), std::move(backend));
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_TASK_PROJECTION_H_
