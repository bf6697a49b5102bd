// What ranks agree on, on a device: as QsgdAgreement of qsgd_codec.cc. A warp for each tile.
#ifndef COMPRESS_KERNELS_QSGD_SUMMARY_AGENT_CUH_
#define COMPRESS_KERNELS_QSGD_SUMMARY_AGENT_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_reduce.cuh"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/qsgd/merge.h"
#include "compress_kernels/qsgd/summary_tasks.h"
#include "compress_kernels/qsgd/tile_coder.cuh"

namespace ringpress::compress_kernels::qsgd {

/// Bytes of shared memory of a warp that summarise() takes.
inline constexpr std::size_t kSummaryWarpMemory = kCoderMemoryWords * sizeof(std::uint32_t);

template <typename Simt, typename T>
class SummaryAgent {
 public:
  RINGPRESS_DEVICE static void summarise(const Simt& simt, const SummaryTask& task) {
    const Parameters& parameters = task.parameters.codec;
    const SummariseArgs& shard = task.shards[simt.shard()];
    switch (task.summary) {
      case Summary::kTensorNorm:
        return measure_tensor(simt, shard);
      case Summary::kBlockNorms:
        return measure_blocks(simt, parameters, shard);
      case Summary::kLevels:
        return choose_levels(simt, parameters, shard);
    }
  }

 private:
  /// Calls body(tile, x) for the tiles of this warp; x: values plus residual.
  template <typename Body>
  RINGPRESS_DEVICE static void for_each_loaded_tile(const Simt& simt, const SummariseArgs& shard,
                                                    Body&& body) {
    for_each_tile(simt, shard.count, [&](const LaneTile& tile) RINGPRESS_INLINE_LAMBDA {
      LaneValues x;
      load_rows<T>(simt, tile, shard.values, x);
      add_residual(simt, tile, shard.residual, x);
      body(tile, x);
    });
  }

  /// The norm of the largest is the largest norm.
  RINGPRESS_DEVICE static void measure_tensor(const Simt& simt, const SummariseArgs& shard) {
    std::uint32_t largest = 0;
    for_each_loaded_tile(simt, shard, [&](const LaneTile&, const LaneValues& x) {
      RINGPRESS_UNROLL
      for (unsigned row = 0; row < kRows; ++row) {
        largest = core::largest_of(largest, core::magnitude_bits(x[row]));
      }
    });
    largest = largest_of_lanes(simt, kPackLanes, largest);
    if (simt.lane() != 0) return;
    simt.atomic_max(reinterpret_cast<std::uint32_t*>(shard.summary), norm_of_magnitude(largest));
  }

  RINGPRESS_DEVICE static void measure_blocks(const Simt& simt, const Parameters& parameters,
                                              const SummariseArgs& shard) {
    for_each_loaded_tile(simt, shard, [&](const LaneTile& tile, const LaneValues& x) {
      store_norms(simt, tile, parameters.block, measure_block(simt, tile.lane, parameters.block, x),
                  shard.summary);
    });
  }

  RINGPRESS_DEVICE static void choose_levels(const Simt& simt, const Parameters& parameters,
                                             const SummariseArgs& shard) {
    const Form form = agreed_form(parameters, shard.count, shard.agreed);
    const TileCoder<Simt, T> coder(simt, parameters, form);
    for_each_loaded_tile(simt, shard, [&](const LaneTile& tile, const LaneValues& x) {
      coder.scales().put(simt, tile.lane, load_norm(simt, tile, form));
      coder.write_levels(tile, x, shard.summary);
    });
  }
};

/// Summaries of any values: 8 bytes of all of them at a time.
template <typename Simt>
RINGPRESS_DEVICE void merge_summaries(const Simt& simt, const MergeTask& task) {
  const int bits = level_bits(task.parameters.codec);
  const std::size_t threads = static_cast<std::size_t>(simt.warps()) * kPackLanes;
  std::size_t at = (simt.block() * threads + simt.warp() * kPackLanes + simt.lane()) * 8;
  for (; at < task.bytes; at += simt.blocks() * threads * 8) {
    const auto size = static_cast<unsigned>(task.bytes - at < 8 ? task.bytes - at : 8);
    std::uint64_t merged = core::load_bytes(simt, task.into + at, size);
    for (std::size_t i = 0; i < task.from_count; ++i) {
      const std::uint64_t other = core::load_bytes(simt, task.from[i] + at, size);
      merged = task.summary == Summary::kLevels ? smaller_levels(other, merged, bits)
                                                : larger_norms(other, merged);
    }
    core::store_bytes(simt, task.into + at, size, merged);
  }
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_SUMMARY_AGENT_CUH_
