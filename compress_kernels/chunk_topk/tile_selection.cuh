// What is sent of a tile: its elements are marked by the threads of a block.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_TILE_SELECTION_CUH_
#define COMPRESS_KERNELS_CHUNK_TOPK_TILE_SELECTION_CUH_

#include <cstdint>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/tile_memory.cuh"

namespace ringpress::compress_kernels::chunk_topk {

/// What is selected of a tile, known before it is looked at.
struct Wanted {
  std::uint32_t lowest = 0;  // Class of the threshold.
  std::uint32_t quota = 0;   // Elements of that class that there is room for from here on.
  std::uint32_t before = 0;  // Elements that are sent of the tiles before this one.
  bool is_marked = false;    // The chunk is.
};

template <typename Simt>
class TileSelection {
 public:
  RINGPRESS_DEVICE TileSelection(const Simt& simt, const Wanted& wanted)
      : simt_(simt), wanted_(wanted), memory_(tile_memory(simt)) {}

  /// x_of(index) gives x of so many elements of the tile. Keeps x, marks what is sent and gives how
  /// many that are. All threads of the block take part, and have met at the end.
  template <typename Load>
  RINGPRESS_DEVICE std::uint32_t run(unsigned elements, Load&& x_of) const {
    classify(elements, x_of);
    return select();
  }

 private:
  static_assert(kMarkWords % Simt::kBlockThreads == 0);

  /// Keeps x, and marks elements above the threshold's class, and in `map` those of it.
  template <typename Load>
  RINGPRESS_DEVICE void classify(unsigned elements, Load&& x_of) const {
    if (thread_of(simt_) == 0) memory_.largest = memory_.from_infinity = 0;
    for_each_thread(simt_, kTile, [&](unsigned index) {
      const float x = index < elements ? x_of(index) : 0.0f;
      const std::uint32_t value_class = class_of(x);
      memory_.words[index] = core::bits_of(x);
      const bool is_above = !wanted_.is_marked && value_class > wanted_.lowest;
      const bool is_lowest = !wanted_.is_marked && value_class == wanted_.lowest;
      const std::uint32_t above = simt_.ballot(is_above);
      const std::uint32_t lowest = simt_.ballot(is_lowest);
      if (simt_.lane() != 0) return;
      memory_.marks[index / core::kLanes] = above;
      memory_.map[index / core::kLanes] = lowest;
    });
    simt_.sync_block();
  }

  /// The first `count` bits of a word.
  RINGPRESS_DEVICE std::uint32_t first_of(std::uint32_t word, std::uint32_t count) const {
    if (count >= core::kLanes) return word;
    std::uint32_t rest = word;
    for (std::uint32_t i = 0; i < count; ++i) rest &= rest - 1;
    return word ^ rest;
  }

  /// Adds to the marks what there is room for of the lowest class. Gives how many are marked.
  RINGPRESS_DEVICE std::uint32_t select() const {
    const unsigned begin = thread_of(simt_) * kMarkShare<Simt>;
    TileCounts own, totals;
    for (unsigned word = begin; word < begin + kMarkShare<Simt>; ++word) {
      own = own + counts_of(word);
    }
    TileCounts before = simt_.exclusive_sum(own, totals);
    for (unsigned word = begin; word < begin + kMarkShare<Simt>; ++word) {
      const std::uint32_t taken = within_quota(before.lowest);
      memory_.before[word] = before.above + taken;
      before = before + counts_of(word);
      memory_.marks[word] |= first_of(memory_.map[word], wanted_.quota - taken);
    }
    simt_.sync_block();
    return totals.above + within_quota(totals.lowest);
  }
  /// Of a word of `marks` and `map`, until what there is room for is marked.
  RINGPRESS_DEVICE TileCounts counts_of(unsigned word) const {
    return {simt_.count_bits(memory_.marks[word]), simt_.count_bits(memory_.map[word])};
  }
  RINGPRESS_DEVICE std::uint32_t within_quota(std::uint32_t count) const {
    return count < wanted_.quota ? count : wanted_.quota;
  }

  const Simt& simt_;
  const Wanted& wanted_;
  TileMemory& memory_;
};

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_TILE_SELECTION_CUH_
