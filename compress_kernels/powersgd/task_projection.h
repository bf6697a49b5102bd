// powersgd as a DeviceProjection: turns the arguments of operations into those of kernels, which
// `Backend` launches (core/projection_tasks.h).
#ifndef COMPRESS_KERNELS_POWERSGD_TASK_PROJECTION_H_
#define COMPRESS_KERNELS_POWERSGD_TASK_PROJECTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/powersgd/arithmetic.h"
#include "compress_kernels/powersgd/device_tasks.h"
#include "compress_kernels/powersgd/parts.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::powersgd {

/// How kernels make what a specification says.
struct DeviceParameters {
  std::size_t rank = 4;
};

/// The matrices of a tensor come one after the other and share the scratch memory:
///
///   flag, with room for alignment; q, rank * stride_of(columns); sums of blocks, rank * columns
///   each
template <typename Backend>
class TaskProjection final : public DeviceProjection {
 public:
  using Parameters = DeviceParameters;

  TaskProjection(std::unique_ptr<Codec> codec, const DeviceParameters& parameters, Backend backend)
      : codec_(std::move(codec)), rank_(parameters.rank), backend_(std::move(backend)) {}

  const Codec& codec() const override { return *codec_; }

  std::size_t scratch_count(const TensorShape& shape) const override {
    std::size_t most = 0;
    for_each_part(shape, rank_, [&](const Part& part) {
      if (!part.is_matrix()) return;
      most = std::max(most, kFlag + rank_ * stride_of(part.shape.columns) +
                                blocks_of(part) * rank_ * part.shape.columns);
    });
    return most;
  }

  Status offer_state(Stream stream, const DeviceProjectArgs& args) override {
    return launch(stream, core::OfferTask{{}, core::state_of(args), args.tags}, 1);
  }

  Status project(Stream stream, int round, const DeviceProjectArgs& args) override {
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args, codec_->dtype()));
    return for_each(args, [&](const Part& part) {
      if (round == 0) {
        return part.is_matrix() ? left(stream, part, args) : load(stream, part, args);
      }
      return part.is_matrix() ? right(stream, part, args) : Status::ok();
    });
  }

  Status finish(Stream stream, const DeviceProjectArgs& args) override {
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args, codec_->dtype()));
    RINGPRESS_RETURN_IF_ERROR(for_each(args, [&](const Part& part) {
      return part.is_matrix() ? rebuild(stream, part, args) : store(stream, part, args);
    }));
    if (args.call.state == nullptr) return Status::ok();
    return launch(stream, core::MarkTask{{}, core::state_of(args), args.call.step + 1}, 1);
  }

 private:
  static constexpr std::size_t kLanes = 32;
  static constexpr std::size_t kFlag = 4;

  static std::size_t blocks_of(const Part& part) {
    return core::pieces_of(part.shape.rows, kRowsOfSum);
  }
  static float* q_of(const DeviceProjectArgs& args) { return args.scratch + kFlag; }
  float* sums_of(const Part& part, const DeviceProjectArgs& args) const {
    return q_of(args) + rank_ * stride_of(part.shape.columns);
  }

  template <typename Task>
  Status launch(Stream stream, const Task& task, std::size_t count) const {
    return backend_.launch(stream, codec_->dtype(), task, count);
  }

  /// Calls use(part) for the parts of a tensor until one fails.
  template <typename Use>
  Status for_each(const DeviceProjectArgs& args, Use&& use) const {
    Status status = Status::ok();
    for_each_part(args.call.shape, rank_, [&](const Part& part) {
      if (status.is_ok()) static_cast<void>(status = use(part));
    });
    return status;
  }

  const std::byte* values_at(const Part& part, const DeviceProjectArgs& args) const {
    return static_cast<const std::byte*>(args.call.values) +
           part.offset * dtype_size(codec_->dtype());
  }
  std::byte* result_at(const Part& part, const DeviceProjectArgs& args) const {
    return static_cast<std::byte*>(args.call.result) + part.offset * dtype_size(codec_->dtype());
  }
  static float* residual_at(const Part& part, const DeviceProjectArgs& args) {
    return args.call.residual == nullptr ? nullptr : args.call.residual + part.offset;
  }
  MatrixOnDevice matrix(const Part& part, const DeviceProjectArgs& args) const {
    return {part.shape, part.count, values_at(part, args), residual_at(part, args)};
  }
  Columns columns(const Part& part, const DeviceProjectArgs& args) const {
    Columns columns;
    columns.count = part.shape.columns;
    columns.rank = rank_;
    columns.state = core::state_of(args);
    if (columns.state.values != nullptr) columns.state.values += part.second_round;
    columns.random = {args.call.seed, args.call.step, static_cast<std::uint32_t>(part.index), 0};
    columns.factor = factor_of_draws(part.shape.columns);
    return columns;
  }

  Status left(Stream stream, const Part& part, const DeviceProjectArgs& args) const {
    const std::size_t groups = core::pieces_of(part.shape.columns, core::kElementsPerGroup);
    const StartTask start{{}, columns(part, args), q_of(args)};
    RINGPRESS_RETURN_IF_ERROR(launch(stream, start, core::pieces_of(groups * rank_, kLanes)));
    float* const own = args.call.own[0] + part.first_round;
    const LeftTask task{{}, matrix(part, args), rank_, q_of(args), own};
    return launch(stream, task, core::pieces_of(part.shape.rows, LeftTask::kRows));
  }

  Status right(Stream stream, const Part& part, const DeviceProjectArgs& args) const {
    float* const p = args.call.summed[0] + part.first_round;
    float* const sums = sums_of(part, args);
    RINGPRESS_RETURN_IF_ERROR(launch(stream, OrthonormaliseTask{{}, part.shape.rows, rank_, p}, 1));
    const std::size_t chunks = core::pieces_of(part.shape.columns, RightTask::kColumns);
    const RightTask task{{}, matrix(part, args), rank_, p, sums};
    RINGPRESS_RETURN_IF_ERROR(launch(stream, task, blocks_of(part) * chunks));
    const std::size_t count = rank_ * part.shape.columns;
    float* const own = args.call.own[1] + part.second_round;
    return launch(stream, AddTask{{}, count, blocks_of(part), sums, p, own},
                  core::pieces_of(count, kLanes));
  }

  Status rebuild(Stream stream, const Part& part, const DeviceProjectArgs& args) const {
    const float* const p = args.call.summed[0] + part.first_round;
    const float* const sums = args.call.summed[1] + part.second_round;
    const float* const own_q = args.call.own[1] + part.second_round;
    float* const flag = args.scratch;
    const std::size_t count = part.shape.columns;
    const SettleTask settle{{}, count, rank_, args.call.divisor, p, sums, q_of(args), flag};
    RINGPRESS_RETURN_IF_ERROR(launch(stream, settle, 1));
    RebuildTask task;
    task.matrix = matrix(part, args);
    task.rank = rank_;
    task.p = p;
    task.q = q_of(args);
    task.own_q = own_q;
    task.result = result_at(part, args);
    task.flag = flag;
    RINGPRESS_RETURN_IF_ERROR(launch(stream, task,
                                     core::pieces_of(part.shape.rows, RebuildTask::kRows) *
                                         core::pieces_of(count, RebuildTask::kColumns)));
    if (args.call.state == nullptr) return Status::ok();
    return launch(stream, StateTask{{}, columns(part, args), sums, flag}, rank_);
  }

  Status load(Stream stream, const Part& part, const DeviceProjectArgs& args) const {
    LoadTask task;
    task.values = values_at(part, args);
    task.residual = residual_at(part, args);
    task.count = part.count;
    task.own = args.call.own[0] + part.first_round;
    return launch(stream, task, core::pieces_of(part.count, kLanes));
  }

  Status store(Stream stream, const Part& part, const DeviceProjectArgs& args) const {
    StoreTask task;
    task.sums = args.call.summed[0] + part.first_round;
    task.own = args.call.own[0] + part.first_round;
    task.count = part.count;
    task.divisor = args.call.divisor;
    task.result = result_at(part, args);
    task.residual = residual_at(part, args);
    return launch(stream, task, core::pieces_of(part.count, kLanes));
  }

  std::unique_ptr<Codec> codec_;
  std::size_t rank_;
  Backend backend_;
};

}  // namespace ringpress::compress_kernels::powersgd

#endif  // COMPRESS_KERNELS_POWERSGD_TASK_PROJECTION_H_
