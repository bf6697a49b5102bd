// How a tensor is cut into shards, and these into chunks: pure functions, the same on every rank
// and for whoever makes the call.
#ifndef RINGPRESS_INTERNAL_SHARDS_H_
#define RINGPRESS_INTERNAL_SHARDS_H_

#include <algorithm>
#include <cstddef>

namespace ringpress {

/// Elements [offset, offset + count) of a tensor.
struct ElementRange {
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const ElementRange&) const = default;
};

/// The shard of a rank where `count` elements are cut as even as multiples of `alignment` elements
/// allow; the last shards may be short or empty.
constexpr ElementRange even_shard(std::size_t count, std::size_t world, std::size_t alignment,
                                  std::size_t rank) {
  const std::size_t units = count / alignment + (count % alignment != 0 ? 1 : 0);
  const std::size_t each = units / world;
  const std::size_t more = units % world;
  const std::size_t first = std::min(count, (each * rank + std::min(rank, more)) * alignment);
  return {first, std::min(count - first, (each + (rank < more ? 1 : 0)) * alignment)};
}

/// Chunk number `chunk` of a shard that is cut every `chunk_elements`; empty past the end.
constexpr ElementRange chunk_of(const ElementRange& shard, std::size_t chunk,
                                std::size_t chunk_elements) {
  const std::size_t first = std::min(shard.count, chunk * chunk_elements);
  return {shard.offset + first, std::min(shard.count - first, chunk_elements)};
}

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_SHARDS_H_
