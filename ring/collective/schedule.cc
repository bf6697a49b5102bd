#include "ring/collective/schedule.h"

#include <algorithm>

namespace ringpress::ring {
namespace {

// A chunk and what is derived from it fit the second-level cache of one core.
constexpr std::size_t kLargestChunkBytes = 512 * 1024;
// Several ranks that send larger frames to one receiver at a time crowd its link while others idle:
// measured, 512 KiB cost sra 3 % of a 1 Gb/s wire, 128 KiB nothing.
constexpr std::size_t kLargestWireBytes = 128 * 1024;
// Below this a frame costs more in system calls than it gains in overlap: more where there is no
// encoding and decoding to overlap. Links that are slower than the processor gain from small frames
// (1 MB, 4 ranks, 1 Gb/s: 13.2 ms with 32 KiB, 15.5 ms with 128 KiB), faster ones from large
// (1 MB, 2 ranks, unshaped: 335 us with 64 KiB, 280 us with 128 KiB).
constexpr std::size_t kSmallestWireBytes = 16 * 1024;
constexpr std::size_t kSmallestExactWireBytes = 32 * 1024;
// Of an identity codec on one host, for all peers together: a quarter of it costs 5 to 10 % in
// waits for the other ranks, more leaves the cache.
constexpr std::size_t kLocalTotalBytes = 1024 * 1024;
constexpr std::size_t kSmallestLocalWireBytes = 128 * 1024;
// Smaller shards go faster in frames that shared memory copies when they are sent.
constexpr std::size_t kSmallestLocalShardBytes = 64 * 1024;
constexpr std::size_t kCopiedFrameBytes = 16 * 1024;
// Chunks per shard that keep all stages of the pipeline busy.
constexpr std::size_t kWantedChunks = 8;

}  // namespace

std::pmr::vector<Range> even_shards(std::size_t count, std::size_t world, std::size_t alignment,
                                    std::pmr::memory_resource* memory) {
  std::pmr::vector<Range> shards(world, memory);
  for (std::size_t rank = 0; rank < world; ++rank) {
    shards[rank] = even_shard(count, world, alignment, rank);
  }
  return shards;
}

std::pmr::vector<Range> equal_shards(std::size_t shard_count, std::size_t world,
                                     std::pmr::memory_resource* memory) {
  std::pmr::vector<Range> shards(world, memory);
  for (std::size_t rank = 0; rank < world; ++rank) shards[rank] = {rank * shard_count, shard_count};
  return shards;
}

std::size_t chunk_count(std::span<const Range> shards, std::size_t chunk_elements) {
  std::size_t largest = 0;
  for (const Range& shard : shards) largest = std::max(largest, shard.count);
  return (largest + chunk_elements - 1) / chunk_elements;
}

std::size_t choose_chunk_elements(std::size_t shard_count, const Codec& codec) {
  const std::size_t tile_bytes = kTileElements * dtype_size(codec.dtype());
  const std::size_t tile_wire_bytes = std::max<std::size_t>(1, codec.wire_bytes(kTileElements));
  const std::size_t largest_tiles = std::max<std::size_t>(
      1, std::min(kLargestChunkBytes / tile_bytes, kLargestWireBytes / tile_wire_bytes));
  const std::size_t smallest_bytes =
      codec.traits().identity ? kSmallestExactWireBytes : kSmallestWireBytes;
  const std::size_t smallest_tiles =
      std::min(largest_tiles, (smallest_bytes + tile_wire_bytes - 1) / tile_wire_bytes);
  const std::size_t wanted_tiles = shard_count / (kWantedChunks * kTileElements) + 1;
  return std::clamp(wanted_tiles, smallest_tiles, largest_tiles) * kTileElements;
}

std::size_t choose_local_chunk_elements(std::size_t shard_count, const Codec& codec,
                                        std::size_t world) {
  const std::size_t shard_bytes = codec.wire_bytes(shard_count);
  if (!codec.traits().identity) return choose_chunk_elements(shard_count, codec);
  const std::size_t peers = std::max<std::size_t>(1, world - 1);
  const std::size_t bytes = shard_bytes < kSmallestLocalShardBytes
                                ? kCopiedFrameBytes
                                : std::max(kLocalTotalBytes / peers, kSmallestLocalWireBytes);
  return std::max<std::size_t>(1, bytes / codec.wire_bytes(kTileElements)) * kTileElements;
}

}  // namespace ringpress::ring
