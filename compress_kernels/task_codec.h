// A DeviceCodec: turns the arguments of operations into those of kernels, which `Backend` launches.
//
//   Status Backend::launch(Stream, DType, const EncodeTask<P>&, core::Extent) const
//
// and so for DecodeTask and HopTask; P: what the kernels of a family are launched with. `Kernels`
// says what is special about a family; where nothing is, they are PlainKernels.
#ifndef COMPRESS_KERNELS_TASK_CODEC_H_
#define COMPRESS_KERNELS_TASK_CODEC_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/device_family.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels {

/// Where an operation is asked for, and its scratch memory.
struct TaskPlace {
  Stream stream;
  DType dtype;
  std::byte* scratch;
};

/// Kernels that take the parameters of a plan as they are, with one launch for each operation.
template <typename P>
struct PlainKernels {
  using Parameters = P;

  /// Calls use() with what kernels are launched with: to encode values or decode,
  template <typename Use>
  static Status of_form(const P& plan, Contributions, Use&& use) {
    return use(plan);
  }
  /// and to turn wires that are sums of `part` into one of `form`.
  template <typename Use>
  static Status of_hop(const P& plan, Contributions /*form*/, Contributions /*part*/, Use&& use) {
    return use(plan);
  }

  static std::size_t scratch_bytes(std::size_t /*shards*/, std::size_t /*count*/) { return 0; }

  template <typename Backend, typename Task>
  static Status launch(const Backend& backend, const TaskPlace& place, Task& task,
                       core::Extent extent) {
    return backend.launch(place.stream, place.dtype, task, extent);
  }

  template <typename Backend>
  static std::unique_ptr<DeviceAgreement> make_agreement(const Codec&, const P&, const Backend&) {
    return nullptr;
  }
};

template <typename Kernels, typename Backend>
class TaskCodec final : public DeviceCodec {
 public:
  using Parameters = typename Kernels::Parameters;

  TaskCodec(std::unique_ptr<Codec> codec, const Parameters& plan, Backend backend)
      : codec_(std::move(codec)),
        plan_(plan),
        backend_(std::move(backend)),
        agreement_(Kernels::make_agreement(*codec_, plan_, backend_)) {}

  const Codec& codec() const override { return *codec_; }
  DeviceAgreement* agreement() override { return agreement_.get(); }

  /// Every form has kernels.
  Status supports(Contributions, std::size_t wires) const override {
    return core::check_wires(wires);
  }

  std::size_t scratch_bytes(std::size_t shards, std::size_t count) const override {
    return Kernels::scratch_bytes(shards, count);
  }

  Status encode(Stream stream, std::span<const EncodeArgs> shards, std::byte* scratch) override {
    for (const EncodeArgs& args : shards) RINGPRESS_RETURN_IF_ERROR(check(args));
    return for_each_batch(shards, [&](auto batch, const auto& parameters) {
      const auto convert = [](const EncodeArgs& args) {
        return core::EncodeShard{args.values, args.count, core::output_of(args), args.agreed};
      };
      return launch_shards<core::EncodeTask>(place(stream, scratch), batch, parameters, convert);
    });
  }

  Status decode(Stream stream, std::span<const DecodeArgs> shards, std::byte*) override {
    for (const DecodeArgs& args : shards) {
      RINGPRESS_RETURN_IF_ERROR(core::check_alignment(args.values, dtype_size(codec_->dtype())));
    }
    return for_each_batch(shards, [&](auto batch, const auto& parameters) {
      const auto convert = [](const DecodeArgs& args) {
        return core::DecodeShard{args.wire, args.count, args.values, args.divisor, args.agreed};
      };
      return launch_shards<core::DecodeTask>(place(stream, nullptr), batch, parameters, convert);
    });
  }

  Status decode_add_encode(Stream stream, const DecodeAddEncodeArgs& args,
                           std::byte* scratch) override {
    RINGPRESS_RETURN_IF_ERROR(check(args));
    RINGPRESS_RETURN_IF_ERROR(core::check_wires(args.wires.size()));
    if (args.count == 0) return Status::ok();
    const Contributions part{args.wire_contributions, args.form.world};
    return Kernels::of_hop(plan_, args.form, part, [&](const auto& parameters) {
      auto task = hop_task(parameters, args);
      return Kernels::launch(backend_, place(stream, scratch), task, core::Extent{1, args.count});
    });
  }

 private:
  TaskPlace place(Stream stream, std::byte* scratch) const {
    return {stream, codec_->dtype(), scratch};
  }

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
      RINGPRESS_RETURN_IF_ERROR(Kernels::of_form(
          plan_, shards[0].form,
          [&](const auto& parameters) { return launch(shards.first(size), parameters); }));
      shards = shards.subspan(size);
    }
    return Status::ok();
  }

  template <template <typename> class Task, typename Args, typename P, typename Convert>
  Status launch_shards(const TaskPlace& place, std::span<const Args> shards, const P& parameters,
                       Convert&& convert) {
    Task<P> task{};
    task.parameters = parameters;
    core::Extent extent{shards.size(), 0};
    for (std::size_t i = 0; i < shards.size(); ++i) {
      task.shards[i] = convert(shards[i]);
      extent.largest_count = std::max(extent.largest_count, shards[i].count);
    }
    if (extent.largest_count == 0) return Status::ok();
    return Kernels::launch(backend_, place, task, extent);
  }

  template <typename P>
  static core::HopTask<P> hop_task(const P& parameters, const DecodeAddEncodeArgs& args) {
    core::HopTask<P> task{};
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
  Parameters plan_;
  Backend backend_;
  std::unique_ptr<DeviceAgreement> agreement_;
};

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_TASK_CODEC_H_
