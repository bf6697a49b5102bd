// A DeviceAgreement: what a stream call is asked for as kernels that `Backend` launches. `Backend`
// is that of task_codec.h, and also has
//
//   Status Backend::launch(Stream, DType, const SummaryTask&, core::Extent) const
//   Status Backend::launch(Stream, DType, const MergeTask&, core::Extent) const
//   Status Backend::zero(Stream, void* memory, std::size_t bytes) const
#ifndef COMPRESS_KERNELS_QSGD_TASK_AGREEMENT_H_
#define COMPRESS_KERNELS_QSGD_TASK_AGREEMENT_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/qsgd/summary_tasks.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::qsgd {

/// The agreement of qsgd and qsgd-ms.
template <typename Backend>
class TaskAgreement final : public DeviceAgreement {
 public:
  /// The codec must outlive it.
  TaskAgreement(const Codec& codec, const QsgdDeviceParameters& parameters, const Backend& backend)
      : codec_(codec), parameters_(parameters), backend_(backend) {}

  Status summarise_tensor(Stream stream, const SummariseArgs& args) override {
    // The kernel's blocks each raise it to what they find.
    RINGPRESS_RETURN_IF_ERROR(backend_.zero(stream, args.summary, agreement().tensor_bytes()));
    return launch_summaries(stream, Summary::kTensorNorm, {&args, 1});
  }

  Status merge_tensor(Stream stream, std::span<const std::byte* const> from,
                      std::byte* into) override {
    return launch_merge(stream, {Summary::kTensorNorm, agreement().tensor_bytes()}, from, into);
  }

  Status summarise(Stream stream, int round, std::span<const SummariseArgs> shards) override {
    const Summary summary = summary_of_round(parameters_.codec, round);
    while (!shards.empty()) {
      const std::size_t size = std::min(shards.size(), core::kMostShards);
      RINGPRESS_RETURN_IF_ERROR(launch_summaries(stream, summary, shards.first(size)));
      shards = shards.subspan(size);
    }
    return Status::ok();
  }

  Status merge(Stream stream, int round, std::size_t count, std::span<const std::byte* const> from,
               std::byte* into) override {
    return launch_merge(
        stream, {summary_of_round(parameters_.codec, round), agreement().round_bytes(round, count)},
        from, into);
  }

 private:
  struct Kind {
    Summary summary;
    std::size_t bytes;
  };

  const Agreement& agreement() const { return *codec_.agreement(); }

  Status launch_summaries(Stream stream, Summary summary,
                          std::span<const SummariseArgs> shards) const {
    SummaryTask task{};
    task.parameters = parameters_;
    task.summary = summary;
    core::Extent extent{shards.size(), 0};
    for (std::size_t i = 0; i < shards.size(); ++i) {
      RINGPRESS_RETURN_IF_ERROR(
          core::check_alignment(shards[i].values, dtype_size(codec_.dtype())));
      RINGPRESS_RETURN_IF_ERROR(core::check_alignment(shards[i].residual, sizeof(float)));
      task.shards[i] = shards[i];
      extent.largest_count = std::max(extent.largest_count, shards[i].count);
    }
    if (extent.largest_count == 0) return Status::ok();
    return backend_.launch(stream, codec_.dtype(), task, extent);
  }

  Status launch_merge(Stream stream, Kind kind, std::span<const std::byte* const> from,
                      std::byte* into) const {
    RINGPRESS_RETURN_IF_ERROR(core::check_wires(from.size()));
    if (kind.bytes == 0 || from.empty()) return Status::ok();
    MergeTask task{};
    task.parameters = parameters_;
    task.summary = kind.summary;
    task.bytes = kind.bytes;
    task.into = into;
    task.from_count = from.size();
    std::copy(from.begin(), from.end(), task.from);
    // A thread for each 8 bytes, where a launch has 32 for each tile.
    const std::size_t tiles = kind.bytes / 256 + 1;
    return backend_.launch(stream, codec_.dtype(), task, core::Extent{1, tiles * kTileElements});
  }

  const Codec& codec_;
  const QsgdDeviceParameters parameters_;
  const Backend backend_;
};

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_TASK_AGREEMENT_H_
