// A DeviceScales whose kernels `Backend` launches (core/projection_tasks.h).
#ifndef COMPRESS_KERNELS_SCALES_TASK_SCALES_H_
#define COMPRESS_KERNELS_SCALES_TASK_SCALES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "compress_kernels/scales/device_tasks.h"
#include "ringpress/internal/device.h"

namespace ringpress::compress_kernels::scales {

template <typename Backend>
class TaskScales final : public DeviceScales {
 public:
  explicit TaskScales(Backend backend) : backend_(std::move(backend)) {}

  Status divide(Stream stream, DType dtype, std::span<const DividedPart> parts) override {
    return launch_parts<DivideTask>(stream, dtype, parts);
  }
  Status multiply(Stream stream, DType dtype, std::span<const MultipliedPart> parts) override {
    return launch_parts<MultiplyTask>(stream, dtype, parts);
  }

  Status measure(Stream stream, const KeptScales& tensor, const GradientSpan& result,
                 std::uint32_t calls, ScaleErrorPart* parts) override {
    const MeasureTask measure{{}, tensor, result.values, parts};
    RINGPRESS_RETURN_IF_ERROR(backend_.launch(stream, result.dtype, measure, kScaleErrorParts / 2));
    const SettleTask settle{{}, tensor.use, tensor.agreed, parts, calls};
    return backend_.launch(stream, result.dtype, settle, std::size_t{1});
  }
  Status learn(Stream stream, const KeptScales& tensor, const GradientSpan& result,
               float weight) override {
    return launch_blocks(stream, result.dtype, LearnTask{{}, tensor, result.values, weight});
  }
  Status find(Stream stream, const KeptScales& tensor) override {
    return launch_blocks(stream, DType::kFloat32, LearnTask{{}, tensor, nullptr, 0});
  }

 private:
  template <typename Task, typename Part>
  Status launch_parts(Stream stream, DType dtype, std::span<const Part> parts) const {
    while (!parts.empty()) {
      Task task;
      task.part_count = std::min(parts.size(), core::kMostShards);
      std::size_t largest = 0;
      for (std::size_t i = 0; i < task.part_count; ++i) {
        task.parts[i] = parts[i];
        largest = std::max(largest, parts[i].count);
      }
      task.pieces_of_part = core::pieces_of(largest, kPieceElements);
      if (largest > 0) {
        RINGPRESS_RETURN_IF_ERROR(
            backend_.launch(stream, dtype, task, task.pieces_of_part * task.part_count));
      }
      parts = parts.subspan(task.part_count);
    }
    return Status::ok();
  }

  Status launch_blocks(Stream stream, DType dtype, const LearnTask& task) const {
    if (task.tensor.count == 0) return Status::ok();
    return backend_.launch(stream, dtype, task,
                           core::pieces_of(task.tensor.count, 2 * task.tensor.block));
  }

  const Backend backend_;
};

}  // namespace ringpress::compress_kernels::scales

#endif  // COMPRESS_KERNELS_SCALES_TASK_SCALES_H_
