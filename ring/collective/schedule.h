// How a tensor is cut: pure functions, the same on every rank.
#ifndef RING_COLLECTIVE_SCHEDULE_H_
#define RING_COLLECTIVE_SCHEDULE_H_

#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "ringpress/internal/codec.h"
#include "ringpress/internal/shards.h"

namespace ringpress::ring {

using Range = ElementRange;

/// The even_shard() of each rank.
std::pmr::vector<Range> even_shards(
    std::size_t count, std::size_t world, std::size_t alignment,
    std::pmr::memory_resource* memory = std::pmr::get_default_resource());

/// `world` shards of exactly `shard_count` elements.
std::pmr::vector<Range> equal_shards(
    std::size_t shard_count, std::size_t world,
    std::pmr::memory_resource* memory = std::pmr::get_default_resource());

/// Chunks in the largest shard.
std::size_t chunk_count(std::span<const Range> shards, std::size_t chunk_elements);

/// Elements per chunk for shards of at most `shard_count` elements: small enough that a chunk stays
/// in the cache of one core and that a shard makes several (so that encoding, wire and decoding
/// overlap), large enough that a frame is worth its system call. A multiple of kTileElements.
std::size_t choose_chunk_elements(std::size_t shard_count, const Codec& codec);

/// The same where all `world` ranks share one host. An identity codec has nothing to overlap there,
/// so a shard need not make several chunks.
std::size_t choose_local_chunk_elements(std::size_t shard_count, const Codec& codec,
                                        std::size_t world);

}  // namespace ringpress::ring

#endif  // RING_COLLECTIVE_SCHEDULE_H_
