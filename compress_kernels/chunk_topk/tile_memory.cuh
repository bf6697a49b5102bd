// The threads of a block that work on a tile together: the memory that they share. `Simt` is that
// of core/tile_agent.cuh and core/projection_agent.cuh.
//
// A bit for each element of the tile says what is sent: word w of `marks` is about elements 32 w to
// 32 w + 31. Each thread keeps the books of as many neighbouring words.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_TILE_MEMORY_CUH_
#define COMPRESS_KERNELS_CHUNK_TOPK_TILE_MEMORY_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/device_parameters.h"
#include "compress_kernels/core/device_tasks.h"
#include "compress_kernels/core/tile_agent.cuh"

namespace ringpress::compress_kernels::chunk_topk {

inline constexpr unsigned kMarkWords = kTile / core::kLanes;
// Of a bit map of high bits: l is not 0, so there are at most kTile / 2 high parts.
inline constexpr unsigned kMapWords = (kTile / 2 + kTile) / 32;

/// Words of marks that a thread keeps the books of.
template <typename Simt>
inline constexpr unsigned kMarkShare = kMarkWords / Simt::kBlockThreads;

struct TileMemory {
  std::uint32_t words[kTile];  // x of each element as bits; then the packed bits of their places.
  std::uint32_t marks[kMarkWords];
  std::uint32_t before[kMarkWords];  // Elements that are sent of the words before.
  std::uint32_t map[kMapWords];      // High bits that are read. In writing: of the lowest class.
  std::uint32_t map_before[kMapWords];
  std::uint32_t largest;        // The largest magnitude of what is sent.
  std::uint32_t from_infinity;  // How far below infinity the smallest one is.
  std::uint32_t lowest;         // Threshold.
  std::uint32_t quota;
};

/// Bytes of shared memory of a block.
inline constexpr std::size_t kBlockMemory = sizeof(TileMemory);
static_assert(kBlockMemory <= 48 * 1024 && kCounters <= kTile);

template <typename Simt>
RINGPRESS_DEVICE TileMemory& tile_memory(const Simt& simt) {
  return *static_cast<TileMemory*>(simt.block_memory());
}

template <typename Simt>
RINGPRESS_DEVICE unsigned thread_of(const Simt& simt) {
  return simt.warp() * core::kLanes + simt.lane();
}

/// Calls body(number) for all numbers below `count`, neighbours in neighbouring threads.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_thread(const Simt& simt, unsigned count, Body&& body) {
  for (unsigned i = thread_of(simt); i < count; i += Simt::kBlockThreads) body(i);
}

/// Calls body(tile) for the tiles of this block.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_tile(const Simt& simt, std::size_t tiles, Body&& body) {
  for (std::size_t tile = simt.block(); tile < tiles; tile += simt.blocks()) body(tile);
}

/// Those of a word below bit number `bit`.
RINGPRESS_DEVICE std::uint32_t bits_below(std::uint32_t word, unsigned bit) {
  return word & ((1u << bit) - 1u);
}

/// Calls body(bit) for the bits of a word that are set.
template <typename Simt, typename Body>
RINGPRESS_DEVICE void for_each_bit(const Simt& simt, std::uint32_t word, Body&& body) {
  for (; word != 0; word &= word - 1) body(simt.count_bits((word & (0u - word)) - 1u));
}

/// Whether an element of the tile is sent, and how many are before it.
struct Mark {
  bool is_set = false;
  std::uint32_t number = 0;
};
template <typename Simt>
RINGPRESS_DEVICE Mark mark_of(const Simt& simt, const TileMemory& memory, unsigned index) {
  const unsigned word = index / core::kLanes;
  const unsigned bit = index % core::kLanes;
  const std::uint32_t marks = memory.marks[word];
  if ((marks >> bit & 1u) == 0) return {};
  return {true, memory.before[word] + simt.count_bits(bits_below(marks, bit))};
}

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_TILE_MEMORY_CUH_
