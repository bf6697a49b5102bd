// randk as a DeviceProjection: turns the arguments of operations into those of kernels, which
// `Backend` launches (core/projection_tasks.h).
#ifndef COMPRESS_KERNELS_RANDK_TASK_PROJECTION_H_
#define COMPRESS_KERNELS_RANDK_TASK_PROJECTION_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "compress_kernels/core/projection_tasks.h"
#include "compress_kernels/randk/device_tasks.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels::randk {

/// How kernels make what a specification says.
struct DeviceParameters {
  double density = 0.01;
  bool unbiased = false;
};

template <typename Backend>
class TaskProjection final : public DeviceProjection {
 public:
  using Parameters = DeviceParameters;

  TaskProjection(std::unique_ptr<Codec> codec, const DeviceParameters& parameters, Backend backend)
      : codec_(std::move(codec)), parameters_(parameters), backend_(std::move(backend)) {}

  const Codec& codec() const override { return *codec_; }
  std::size_t scratch_count(const TensorShape&) const override { return 0; }

  Status offer_state(Stream stream, const DeviceProjectArgs& args) override {
    return launch(stream, core::OfferTask{{}, core::state_of(args), args.tags}, 1);
  }

  Status project(Stream stream, int, const DeviceProjectArgs& args) override {
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args, codec_->dtype()));
    const GatherTask gather{{}, choose(args), tensor(args), args.call.own[0]};
    const std::size_t longest = gather.choice.slices.longest();
    RINGPRESS_RETURN_IF_ERROR(launch(stream, gather, core::pieces_of(longest + 1, kLanes)));
    return launch(stream, ScanTask{{}, tensor(args), args.call.own[0] + longest},
                  core::pieces_of(args.call.shape.count, kGroupsElements));
  }

  Status finish(Stream stream, const DeviceProjectArgs& args) override {
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args, codec_->dtype()));
    const SliceChoice choice = choose(args);
    const float* const flag = args.call.summed[0] + choice.slices.longest();
    const std::size_t count = args.call.shape.count;
    RINGPRESS_RETURN_IF_ERROR(launch(stream, KeepTask{{}, tensor(args), args.call.result, flag},
                                     core::pieces_of(count, kGroupsElements)));
    RINGPRESS_RETURN_IF_ERROR(
        launch(stream, scatter(choice, args), core::pieces_of(choice.slices.longest(), kLanes)));
    if (args.call.state == nullptr) return Status::ok();
    return launch(stream, AdvanceTask{{}, choice, flag, args.call.step + 1}, 1);
  }

 private:
  static constexpr std::size_t kLanes = 32;
  static constexpr std::size_t kGroupsElements = 256;

  template <typename Task>
  Status launch(Stream stream, const Task& task, std::size_t pieces) const {
    return pieces == 0 ? Status::ok() : backend_.launch(stream, codec_->dtype(), task, pieces);
  }

  SliceChoice choose(const DeviceProjectArgs& args) const {
    const Slices slices(parameters_.density, args.call.shape.count);
    return {Permutation(args.call.seed, args.call.shape.count), slices,
            static_cast<float>(slices.of_turn(args.call.turn)), core::state_of(args)};
  }
  /// What is unbiased keeps no residual.
  TensorOnDevice tensor(const DeviceProjectArgs& args) const {
    return {args.call.values, args.call.shape.count,
            parameters_.unbiased ? nullptr : args.call.residual};
  }
  ScatterTask scatter(const SliceChoice& choice, const DeviceProjectArgs& args) const {
    return {{},
            choice,
            args.call.summed[0],
            args.call.dropped.empty() ? nullptr : args.call.dropped[0],
            args.call.divisor,
            parameters_.unbiased ? static_cast<float>(choice.slices.number) : 1.0f,
            args.call.result,
            tensor(args).residual};
  }

  std::unique_ptr<Codec> codec_;
  DeviceParameters parameters_;
  Backend backend_;
};

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_TASK_PROJECTION_H_
