// The operations of topk:select=chunk as launches of kernels. `Backend` is that of task_codec.h and
// qsgd/task_agreement.h.
//
// Scratch memory, each part 256-byte aligned: counters of all shards, tiles of all shards, sums.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_STAGES_H_
#define COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_STAGES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/device_parameters.h"
#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/topk/topk.h"
#include "ringpress/internal/device.h"
#include "ringpress/internal/status.h"

namespace ringpress::compress_kernels::chunk_topk {

inline std::size_t whole_lines(std::size_t bytes) {
  constexpr std::size_t kLine = 256;
  return (bytes + kLine - 1) / kLine * kLine;
}
inline std::size_t counter_bytes(std::size_t shards) {
  return whole_lines(shards * kCounters * sizeof(std::uint32_t));
}
inline std::size_t tiles_of(std::size_t count) {
  return (count + kTile - 1) / kTile;
}
inline std::size_t tile_bytes(std::size_t shards, std::size_t count) {
  return whole_lines(shards * tiles_of(count) * sizeof(TileCounts));
}

/// For an encoding of so many shards of at most `count` elements, and for a hop of one.
inline std::size_t scratch_bytes(std::size_t shards, std::size_t count) {
  const std::size_t of_launch = std::min(shards, core::kMostShards);
  const std::size_t encode = counter_bytes(of_launch) + tile_bytes(of_launch, count);
  const std::size_t hop = counter_bytes(1) + tile_bytes(1, count) + count * sizeof(float);
  return std::max(encode, hop);
}

inline Scratch cut(std::byte* memory, core::Extent extent) {
  Scratch scratch;
  scratch.counters = reinterpret_cast<std::uint32_t*>(memory);
  memory += counter_bytes(extent.shards);
  scratch.tiles = reinterpret_cast<TileCounts*>(memory);
  scratch.tiles_of_shard = tiles_of(extent.largest_count);
  scratch.sums = reinterpret_cast<float*>(memory + tile_bytes(extent.shards, extent.largest_count));
  return scratch;
}

inline std::uint32_t room_of(const ChunkTopkDeviceParameters& parameters, std::size_t count) {
  return static_cast<std::uint32_t>(topk::selected_count(parameters.density, count));
}

inline Status check_scratch(const std::byte* scratch) {
  if (scratch != nullptr) return Status::ok();
  return Status(Code::kInvalidUsage, "an operation that needs scratch memory got none");
}

using EncodeTask = core::EncodeTask<ChunkTopkDeviceParameters>;
using DecodeTask = core::DecodeTask<ChunkTopkDeviceParameters>;
using HopTask = core::HopTask<ChunkTopkDeviceParameters>;

/// task.parameters.scratch is known.
template <typename Backend>
Status launch_encoding(const Backend& backend, Stream stream, DType dtype, EncodeTask& task,
                       core::Extent extent) {
  for (std::size_t i = 0; i < extent.shards; ++i) {
    task.parameters.room[i] = room_of(task.parameters, task.shards[i].count);
  }
  RINGPRESS_RETURN_IF_ERROR(
      backend.zero(stream, task.parameters.scratch.counters, counter_bytes(extent.shards)));
  for (const Stage stage : {Stage::kCountClasses, Stage::kCountTiles, Stage::kWrite}) {
    task.parameters.stage = stage;
    RINGPRESS_RETURN_IF_ERROR(backend.launch(stream, dtype, task, extent));
  }
  return Status::ok();
}

/// `scratch`: scratch_bytes().
template <typename Backend>
Status launch_stages(const Backend& backend, Stream stream, DType dtype, EncodeTask& task,
                     core::Extent extent, std::byte* scratch) {
  RINGPRESS_RETURN_IF_ERROR(check_scratch(scratch));
  task.parameters.scratch = cut(scratch, extent);
  return launch_encoding(backend, stream, dtype, task, extent);
}

template <typename Backend>
Status launch_stages(const Backend& backend, Stream stream, DType dtype, DecodeTask& task,
                     core::Extent extent, std::byte*) {
  for (std::size_t i = 0; i < extent.shards; ++i) {
    task.parameters.room[i] = room_of(task.parameters, task.shards[i].count);
  }
  return backend.launch(stream, dtype, task, extent);
}

/// The sums are made once, and encoded as any values are.
template <typename Backend>
Status launch_stages(const Backend& backend, Stream stream, DType dtype, HopTask& task,
                     core::Extent extent, std::byte* scratch) {
  const bool encodes = task.output.wire != nullptr;
  task.parameters.room[0] = room_of(task.parameters, task.count);
  if (encodes) {
    RINGPRESS_RETURN_IF_ERROR(check_scratch(scratch));
    task.parameters.scratch = cut(scratch, extent);
  }
  RINGPRESS_RETURN_IF_ERROR(backend.launch(stream, dtype, task, extent));
  if (!encodes) return Status::ok();
  EncodeTask encoding{};
  encoding.parameters = task.parameters;
  encoding.parameters.takes_sums = true;
  encoding.shards[0] = {task.parameters.scratch.sums, task.count, task.output, {}};
  return launch_encoding(backend, stream, dtype, encoding, extent);
}

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_STAGES_H_
