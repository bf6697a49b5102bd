// What kernels of topk:select=chunk are launched with. An encoding takes several launches, each
// with what the ones before it have left in scratch memory.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_PARAMETERS_H_
#define COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_PARAMETERS_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/core/device_tasks.h"

namespace ringpress::compress_kernels {
namespace chunk_topk {

/// The launches of an encoding, in their order. All shards take part in each.
enum class Stage {
  kCountClasses,  // Counts the elements of each class.
  kCountTiles,    // Finds the threshold; counts what is selected of each tile.
  kWrite,         // Finds it again; writes bytes, residuals and decoded values.
};

/// Of a tile: elements of classes above the threshold's, and of that.
struct TileCounts {
  std::uint32_t above = 0;
  std::uint32_t lowest = 0;
};
RINGPRESS_HOST_DEVICE inline TileCounts operator+(const TileCounts& a, const TileCounts& b) {
  return {a.above + b.above, a.lowest + b.lowest};
}

inline constexpr std::size_t kCounters = 4096;  // Of a shard: those of its classes, and zeros.

/// Memory of the device between the launches of one operation.
struct Scratch {
  std::uint32_t* counters = nullptr;  // kCounters for each shard.
  TileCounts* tiles = nullptr;        // tiles_of_shard for each shard.
  std::size_t tiles_of_shard = 0;
  float* sums = nullptr;  // Of a hop, divided; one for each element.
};

}  // namespace chunk_topk

struct ChunkTopkDeviceParameters {
  int value_bits = 8;
  unsigned low_bits = 0;
  double density = 0;  // For the host.
  // Of a launch:
  chunk_topk::Stage stage = chunk_topk::Stage::kCountClasses;
  bool takes_sums = false;                     // Values are those of Scratch::sums.
  std::uint32_t room[core::kMostShards] = {};  // Layout::room of each shard.
  chunk_topk::Scratch scratch;
};

inline ChunkTopkDeviceParameters device_parameters(const ChunkTopkParameters& codec) {
  ChunkTopkDeviceParameters parameters;
  parameters.value_bits = codec.value_bits;
  parameters.low_bits = chunk_topk::low_bits(codec.density);
  parameters.density = codec.density;
  return parameters;
}

namespace chunk_topk {

/// Of one of the shards of a launch.
RINGPRESS_HOST_DEVICE inline Layout layout_of(const ChunkTopkDeviceParameters& parameters,
                                              std::size_t count, std::size_t shard) {
  return {count, parameters.room[shard], parameters.value_bits, parameters.low_bits};
}

}  // namespace chunk_topk
}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_DEVICE_PARAMETERS_H_
