// A DeviceCodec: turns the arguments of operations into those of kernels, which `Backend` launches.
//
//   Status Backend::launch(Stream, DType, const EncodeTask<P>&, core::Extent) const
//
// and so for DecodeTask and HopTask; P: the alternatives of DeviceParameters. See task_agreement.h
// too. An operation is one launch, or several with scratch memory between them: launch_stages().
#ifndef COMPRESS_KERNELS_TASK_CODEC_H_
#define COMPRESS_KERNELS_TASK_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "compress_kernels/chunk_topk/device_stages.h"
#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/device_plan.h"
#include "compress_kernels/task_agreement.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

template <typename Backend>
class TaskCodec final : public DeviceCodec {
 public:
  TaskCodec(std::unique_ptr<Codec> codec, const DevicePlan& plan, Backend backend)
      : codec_(std::move(codec)), plan_(plan), backend_(std::move(backend)) {
    if (const auto* qsgd = std::get_if<QsgdDeviceParameters>(&plan_.parameters)) {
      agreement_.emplace(*codec_, *qsgd, backend_);
    }
  }

  const Codec& codec() const override { return *codec_; }
  DeviceAgreement* agreement() override { return agreement_ ? &*agreement_ : nullptr; }

  /// Every form has kernels.
  Status supports(Contributions, std::size_t wires) const override { return check_wires(wires); }

  std::size_t scratch_bytes(std::size_t shards, std::size_t count) const override {
    const bool is_staged = std::holds_alternative<ChunkTopkDeviceParameters>(plan_.parameters);
    return is_staged ? chunk_topk::scratch_bytes(shards, count) : 0;
  }

  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    for (const EncodeArgs& args : shards) RINGPRESS_RETURN_IF_ERROR(check(args));
    return for_each_batch(shards, [&](auto batch, const auto& parameters) {
      const auto convert = [](const EncodeArgs& args) {
        return core::EncodeShard{args.values, args.count, core::output_of(args), args.agreed};
      };
      return launch_shards<core::EncodeTask>({stream, scratch}, batch, parameters, convert);
    });
  }

  Status decode(Stream stream, std::span<const DecodeArgs> shards) override {
    for (const DecodeArgs& args : shards) {
      RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args.values, dtype_size(codec_->dtype())));
    }
    return for_each_batch(shards, [&](auto batch, const auto& parameters) {
      const auto convert = [](const DecodeArgs& args) {
        return core::DecodeShard{args.wire, args.count, args.values, args.divisor, args.agreed};
      };
      return launch_shards<core::DecodeTask>({stream, nullptr}, batch, parameters, convert);
    });
  }

  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    RINGPRESS_RETURN_IF_ERROR(check(args));
    RINGPRESS_RETURN_IF_ERROR(check_wires(args.wires.size()));
    if (args.count == 0) return Status::ok();
    const DeviceParameters parameters = hop_parameters(plan_, args.form, args.wire_contributions);
    return std::visit(
        [&](const auto& of_family) {
          auto task = hop_task(of_family, args);
          return launch({stream, scratch}, task, core::Extent{1, args.count});
        },
        parameters);
  }

 private:
  /// Where an operation is asked for, and its scratch memory.
  struct Place {
    Stream stream;
    std::byte* scratch;
  };

  template <typename Args>
  Status check(const Args& args) const {
    if (args.input_scale != 1) {
      return Status(Code::kUnsupported, "kernels take no scale of the input");
    }
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args.values, dtype_size(codec_->dtype())));
    RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args.decoded, dtype_size(codec_->dtype())));
    return core::check_alignment(args.residual, sizeof(float));
  }

  /// Calls launch(batch, parameters) for neighbours that one launch can take.
  template <typename Args, typename Launch>
  Status for_each_batch(std::span<const Args> shards, Launch&& launch) {
    const auto fits = [](const Args& a, const Args& b) {
      return a.form.summed == b.form.summed && a.form.world == b.form.world;
    };
    while (!shards.empty()) {
      std::size_t size = 1;
      while (size < shards.size() && size < core::kMostShards && fits(shards[0], shards[size])) {
        ++size;
      }
      const DeviceParameters parameters = form_parameters(plan_, shards[0].form);
      RINGPRESS_RETURN_IF_ERROR(
          std::visit([&](const auto& of_family) { return launch(shards.first(size), of_family); },
                     parameters));
      shards = shards.subspan(size);
    }
    return Status::ok();
  }

  template <template <typename> class Task, typename Args, typename Parameters, typename Convert>
  Status launch_shards(const Place& place, std::span<const Args> shards,
                       const Parameters& parameters, Convert&& convert) {
    Task<Parameters> task{};
    task.parameters = parameters;
    core::Extent extent{shards.size(), 0};
    for (std::size_t i = 0; i < shards.size(); ++i) {
      task.shards[i] = convert(shards[i]);
      extent.largest_count = std::max(extent.largest_count, shards[i].count);
    }
    if (extent.largest_count == 0) return Status::ok();
    return launch(place, task, extent);
  }

  template <typename Task>
  Status launch(const Place& place, Task& task, core::Extent extent) const {
    const DType dtype = codec_->dtype();
    if constexpr (std::is_same_v<decltype(task.parameters), ChunkTopkDeviceParameters>) {
      return chunk_topk::launch_stages(backend_, place.stream, dtype, task, extent, place.scratch);
    } else {
      return backend_.launch(place.stream, dtype, task, extent);
    }
  }

  template <typename Parameters>
  static core::HopTask<Parameters> hop_task(const Parameters& parameters,
                                            const DecodeAddEncodeArgs& args) {
    core::HopTask<Parameters> task{};
    task.parameters = parameters;
    task.values = args.values;
    task.count = args.count;
    task.wire_count = args.wires.size();
    task.own_position = args.own_position;
    task.divisor = args.divisor;
    task.output = core::output_of(args);
    task.agreed = args.agreed;
    std::copy(args.wires.begin(), args.wires.end(), task.wires);
    return task;
  }

  std::unique_ptr<Codec> codec_;
  DevicePlan plan_;
  Backend backend_;
  std::optional<TaskAgreement<Backend>> agreement_;
};

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_TASK_CODEC_H_
