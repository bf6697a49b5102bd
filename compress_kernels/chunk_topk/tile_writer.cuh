// The bytes of a tile, and what becomes of its elements, by the threads of a block. As write_tile()
// of tile_codes.h.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_TILE_WRITER_CUH_
#define COMPRESS_KERNELS_CHUNK_TOPK_TILE_WRITER_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/chunk_topk/tile_memory.cuh"
#include "compress_kernels/chunk_topk/tile_selection.cuh"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/topk/value_code.h"

namespace ringpress::compress_kernels::chunk_topk {

template <typename Simt>
class TileWriter {
 public:
  RINGPRESS_DEVICE TileWriter(const Simt& simt, const Layout& layout, std::byte* wire,
                              std::size_t tile, const Wanted& wanted)
      : simt_(simt),
        layout_(layout),
        wire_(wire),
        tile_(tile),
        wanted_(wanted),
        memory_(tile_memory(simt)) {}

  /// x_of(index) gives x of the elements of the tile. Calls store(index, x, decoded value) for each
  /// of them. All threads of the block take part, and have met at the end.
  template <typename Load, typename Store>
  RINGPRESS_DEVICE void run(Load&& x_of, Store&& store) {
    count_ = TileSelection<Simt>(simt_, wanted_).run(elements(), x_of);
    const topk::Grid grid = choose_grid();
    store_values(grid, store);
    simt_.sync_block();
    clear_bits();
    simt_.sync_block();
    put_places();
    simt_.sync_block();
    store_bits();
    store_rest();
    simt_.sync_block();
  }

 private:
  static constexpr unsigned kHighWord = kTile / 2;  // Of `words`, where high bits begin.
  static_assert(kHighWord + kMapWords <= kTile);
  static_assert(kTile * kMostLowBits / 32 <= kHighWord);

  RINGPRESS_DEVICE unsigned elements() const {
    return static_cast<unsigned>(layout_.elements(tile_));
  }
  RINGPRESS_DEVICE bool is_last() const { return tile_ + 1 == layout_.tiles(); }
  RINGPRESS_DEVICE unsigned low_size() const { return count_ * layout_.low_bits; }
  RINGPRESS_DEVICE unsigned high_size() const {
    return static_cast<unsigned>(layout_.parts(tile_)) + count_;
  }

  RINGPRESS_DEVICE topk::Grid choose_grid() {
    if (layout_.value_bits != 8) return {};
    const unsigned begin = thread_of(simt_) * kMarkShare<Simt>;
    std::uint32_t largest = 0;
    std::uint32_t from_infinity = 0;
    for (unsigned word = begin; word < begin + kMarkShare<Simt>; ++word) {
      for_each_bit(simt_, memory_.marks[word], [&](unsigned bit) {
        const std::uint32_t magnitude =
            memory_.words[word * core::kLanes + bit] & core::kMagnitudeMask;
        if (magnitude >= core::kInfinityBits) return;
        const std::uint32_t distance = core::kInfinityBits - magnitude;
        if (magnitude > largest) largest = magnitude;
        if (distance > from_infinity) from_infinity = distance;
      });
    }
    if (largest > 0) {
      simt_.atomic_max(&memory_.largest, largest);
      simt_.atomic_max(&memory_.from_infinity, from_infinity);
    }
    simt_.sync_block();
    const topk::Scale scale =
        topk::scale_of({memory_.largest, core::kInfinityBits - memory_.from_infinity});
    if (thread_of(simt_) == 0) {
      store_entry(wire_ + layout_.scales(), std::uint32_t{scale.low} << 16 | scale.high);
    }
    return topk::grid_of(scale);
  }

  RINGPRESS_DEVICE void store_entry(std::byte* entries, std::uint32_t entry) const {
    core::store_any(simt_, entries + kEntryBytes * tile_, entry);
  }

  RINGPRESS_DEVICE std::byte* values() const {
    return wire_ + layout_.values() + wanted_.before * layout_.value_bytes();
  }

  template <typename Store>
  RINGPRESS_DEVICE void store_values(const topk::Grid& grid, Store&& store) const {
    for_each_thread(simt_, elements(), [&](unsigned index) {
      const float x = core::float_of(memory_.words[index]);
      float decoded = wanted_.is_marked ? core::float_of(core::kCanonicalNanBits) : 0.0f;
      const Mark mark = mark_of(simt_, memory_, index);
      if (mark.is_set && layout_.value_bits == 8) {
        const std::uint8_t code = topk::encode_value(x, grid);
        simt_.store(values() + mark.number, code);
        decoded = topk::decode_value(code, grid);
      } else if (mark.is_set) {
        const std::uint16_t code = topk::encode_wide_value(x);
        core::store_any(simt_, values() + 2 * mark.number, code);
        decoded = topk::decode_wide_value(code);
      }
      store(index, x, decoded);
    });
  }

  /// From here on `words` holds bits.
  RINGPRESS_DEVICE void clear_bits() const {
    for_each_thread(simt_, (low_size() + 31) / 32, [&](unsigned word) { memory_.words[word] = 0; });
    for_each_thread(simt_, (high_size() + 31) / 32,
                    [&](unsigned word) { memory_.words[kHighWord + word] = 0; });
  }

  RINGPRESS_DEVICE void put_places() const {
    const unsigned begin = thread_of(simt_) * kMarkShare<Simt>;
    for (unsigned word = begin; word < begin + kMarkShare<Simt>; ++word) {
      unsigned number = memory_.before[word];
      for_each_bit(simt_, memory_.marks[word], [&](unsigned bit) {
        const unsigned index = word * core::kLanes + bit;
        put(0, number * layout_.low_bits, bits_below(index, layout_.low_bits));
        put(kHighWord, (index >> layout_.low_bits) + number, 1);
        ++number;
      });
    }
  }
  /// `code`: of so few bits that two words hold them, wherever they begin.
  RINGPRESS_DEVICE void put(unsigned first_word, unsigned place, std::uint32_t code) const {
    const std::uint64_t bits = std::uint64_t{code} << (place % 32);
    std::uint32_t* const word = &memory_.words[first_word + place / 32];
    const auto low = static_cast<std::uint32_t>(bits);
    const auto high = static_cast<std::uint32_t>(bits >> 32);
    if (low != 0) simt_.atomic_or(word, low);
    if (high != 0) simt_.atomic_or(word + 1, high);
  }

  /// Writes all bytes from `begin` to `end`: `bits` bits, then zeros.
  RINGPRESS_DEVICE void store_region(std::size_t begin, std::size_t end, unsigned first_word,
                                     unsigned bits) const {
    for (std::size_t i = thread_of(simt_); i < end - begin; i += Simt::kBlockThreads) {
      std::uint32_t byte = 0;
      if (i * 8 < bits) byte = memory_.words[first_word + i / 4] >> (i % 4 * 8);
      simt_.store(wire_ + begin + i, static_cast<std::uint8_t>(byte));
    }
  }

  RINGPRESS_DEVICE void store_bits() const {
    const std::size_t after = is_last() ? layout_.room : std::size_t{wanted_.before} + count_;
    store_region(layout_.low(tile_, wanted_.before), layout_.low(tile_ + 1, after), 0, low_size());
    store_region(layout_.high(tile_, wanted_.before), layout_.high(tile_ + 1, after), kHighWord,
                 high_size());
  }

  /// The directory, and zeros in the place of values that there are not.
  RINGPRESS_DEVICE void store_rest() const {
    const std::uint32_t end = wanted_.before + count_;
    if (thread_of(simt_) == 0) store_entry(wire_, wanted_.is_marked ? kMarked : end);
    if (!is_last()) return;
    const std::size_t first = layout_.values() + end * layout_.value_bytes();
    store_region(first, layout_.low(0, 0), 0, 0);
  }

  const Simt& simt_;
  const Layout& layout_;
  std::byte* const wire_;
  const std::size_t tile_;
  const Wanted wanted_;
  TileMemory& memory_;
  std::uint32_t count_ = 0;
};

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_TILE_WRITER_CUH_
