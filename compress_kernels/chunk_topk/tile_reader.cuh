// The values that some bytes hold of a tile, by the threads of a block. As read_tile() of
// tile_codes.h.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_TILE_READER_CUH_
#define COMPRESS_KERNELS_CHUNK_TOPK_TILE_READER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/tile_memory.cuh"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/topk/value_code.h"

namespace ringpress::compress_kernels::chunk_topk {

template <typename Simt>
RINGPRESS_DEVICE std::uint32_t load_entry(const Simt& simt, const std::byte* entries,
                                          std::size_t tile) {
  return core::load_any<std::uint32_t>(simt, entries + kEntryBytes * tile);
}

template <typename Simt>
class TileReader {
 public:
  /// All threads of the block take part; they have met since one of them used another reader.
  RINGPRESS_DEVICE TileReader(const Simt& simt, const Layout& layout, const std::byte* wire,
                              std::size_t tile)
      : simt_(simt), layout_(layout), wire_(wire), tile_(tile), memory_(tile_memory(simt)) {
    is_marked_ = load_entry(simt, wire, layout.tiles() - 1) == kMarked;
    before_ = tile == 0 ? 0 : load_entry(simt, wire, tile - 1);
    const std::uint32_t end = load_entry(simt, wire, tile);
    const bool fits =
        end >= before_ && end <= layout.room && end - before_ <= layout.elements(tile);
    count_ = fits ? end - before_ : 0;
    for_each_thread(simt, kMarkWords, [&](unsigned word) { memory_.marks[word] = 0; });
    if (count_ > 0 && !is_marked_ && read_map()) mark_places();
    simt.sync_block();
    if (layout.value_bits == 8) read_grid();
  }

  RINGPRESS_DEVICE bool is_marked() const { return is_marked_; }

  /// Calls use(value) if the element is sent.
  template <typename Use>
  RINGPRESS_DEVICE void read(unsigned index, Use&& use) const {
    if (is_marked_) return use(core::float_of(core::kCanonicalNanBits));
    const Mark mark = mark_of(simt_, memory_, index);
    if (!mark.is_set) return;
    const std::byte* const code =
        wire_ + layout_.values() + (std::size_t{before_} + mark.number) * layout_.value_bytes();
    if (layout_.value_bits == 8) {
      use(topk::decode_value(simt_.template load<std::uint8_t>(code), grid_));
    } else {
      use(topk::decode_wide_value(core::load_any<std::uint16_t>(simt_, code)));
    }
  }

 private:
  static constexpr unsigned kMapShare = (kMapWords + Simt::kBlockThreads - 1) / Simt::kBlockThreads;
  static_assert(kMarkWords % Simt::kBlockThreads == 0);

  RINGPRESS_DEVICE unsigned map_bits() const {
    return static_cast<unsigned>(layout_.parts(tile_)) + count_;
  }

  /// Word number `word` of the map of high bits; nothing beyond its end.
  RINGPRESS_DEVICE std::uint32_t load_map(unsigned word) const {
    const unsigned first = word * 32;
    if (first >= map_bits()) return 0;
    const unsigned bits = map_bits() - first < 32 ? map_bits() - first : 32;
    const std::byte* const from = wire_ + layout_.high(tile_, before_) + first / 8;
    const auto ones = static_cast<std::uint32_t>(core::load_bytes(simt_, from, (bits + 7) / 8));
    return bits == 32 ? ones : bits_below(ones, bits);
  }

  /// False if it has not as many ones as there are elements.
  RINGPRESS_DEVICE bool read_map() {
    const unsigned first = thread_of(simt_) * kMapShare;
    const unsigned end = first + kMapShare < kMapWords ? first + kMapShare : kMapWords;
    std::uint32_t ones = 0, total;
    for (unsigned word = first; word < end; ++word) {
      memory_.map[word] = load_map(word);
      ones += simt_.count_bits(memory_.map[word]);
    }
    ones = simt_.exclusive_sum(ones, total);
    for (unsigned word = first; word < end; ++word) {
      memory_.map_before[word] = ones;
      ones += simt_.count_bits(memory_.map[word]);
    }
    simt_.sync_block();
    return total == count_;
  }

  /// Marks the elements, if as many different ones are named as there are to be.
  RINGPRESS_DEVICE void mark_places() {
    for_each_thread(simt_, map_bits(), [&](unsigned place) {
      const std::uint32_t ones = memory_.map[place / 32];
      if ((ones >> (place % 32) & 1u) == 0) return;
      const unsigned number =
          memory_.map_before[place / 32] + simt_.count_bits(bits_below(ones, place % 32));
      const unsigned index = (place - number) << layout_.low_bits | load_low(number);
      if (index >= layout_.elements(tile_)) return;
      simt_.atomic_or(&memory_.marks[index / core::kLanes], 1u << (index % core::kLanes));
    });
    simt_.sync_block();
    std::uint32_t marked = 0, total;
    const unsigned first = thread_of(simt_) * kMarkShare<Simt>;
    for (unsigned word = first; word < first + kMarkShare<Simt>; ++word) {
      marked += simt_.count_bits(memory_.marks[word]);
    }
    marked = simt_.exclusive_sum(marked, total);
    for (unsigned word = first; word < first + kMarkShare<Simt>; ++word) {
      memory_.before[word] = marked;
      marked += simt_.count_bits(memory_.marks[word]);
      if (total != count_) memory_.marks[word] = 0;
    }
  }

  /// The low bits of an element's index.
  RINGPRESS_DEVICE std::uint32_t load_low(unsigned number) const {
    const unsigned first = number * layout_.low_bits;
    const std::byte* const from = wire_ + layout_.low(tile_, before_) + first / 8;
    const unsigned bytes = (first % 8 + layout_.low_bits + 7) / 8;
    const auto window = static_cast<std::uint32_t>(core::load_bytes(simt_, from, bytes));
    return bits_below(window >> (first % 8), layout_.low_bits);
  }

  RINGPRESS_DEVICE void read_grid() {
    const std::uint32_t scale = load_entry(simt_, wire_ + layout_.scales(), tile_);
    grid_ = topk::grid_of(
        {static_cast<std::uint16_t>(scale & 0xFFFFu), static_cast<std::uint16_t>(scale >> 16)});
  }

  const Simt& simt_;
  const Layout& layout_;
  const std::byte* const wire_;
  const std::size_t tile_;
  TileMemory& memory_;
  bool is_marked_;
  std::uint32_t before_;
  std::uint32_t count_;
  topk::Grid grid_;
};

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_TILE_READER_CUH_
