// What is sent of a tile, to bytes and back, on a host.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_TILE_CODES_H_
#define COMPRESS_KERNELS_CHUNK_TOPK_TILE_CODES_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/chunk_topk/chunk_topk.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/topk/value_code.h"

namespace ringpress::compress_kernels::chunk_topk {

/// The elements of a tile that are sent, in order.
struct Selection {
  std::size_t count = 0;
  std::uint16_t index[kTile];  // In the tile.
  float value[kTile];
  float decoded[kTile];  // What is on the wire for it: write_tile() fills it in.

  void add(std::size_t place, float x) {
    index[count] = static_cast<std::uint16_t>(place);
    value[count] = x;
    ++count;
  }
};

inline std::uint32_t directory_entry(const std::byte* wire, std::size_t tile) {
  return core::load_element<std::uint32_t>(wire, tile);
}

inline bool is_marked(const Layout& layout, const std::byte* wire) {
  return directory_entry(wire, layout.tiles() - 1) == kMarked;
}

/// A chunk without elements that are sent, all of it zeros or, in the directory, marks.
inline void clear(const Layout& layout, bool marked, std::byte* wire) {
  std::memset(wire, marked ? 0xFF : 0, layout.scales());
  std::memset(wire + layout.scales(), 0, layout.bytes() - layout.scales());
}

inline topk::Extent extent_of(const Selection& selection) {
  topk::Extent extent;
  for (std::size_t j = 0; j < selection.count; ++j) {
    const std::uint32_t magnitude = core::magnitude_bits(selection.value[j]);
    if (magnitude >= core::kInfinityBits) continue;  // No zero is sent.
    extent.largest = std::max(extent.largest, magnitude);
    extent.smallest = std::min(extent.smallest, magnitude);
  }
  return extent;
}

/// `values`: where those of the tile begin.
inline void write_values(const Layout& layout, std::size_t tile, Selection* selection,
                         std::byte* wire, std::byte* values) {
  if (layout.value_bits == 16) {
    for (std::size_t j = 0; j < selection->count; ++j) {
      const std::uint16_t code = topk::encode_wide_value(selection->value[j]);
      core::store_element(values, j, code);
      selection->decoded[j] = topk::decode_wide_value(code);
    }
    return;
  }
  const topk::Scale scale = topk::scale_of(extent_of(*selection));
  core::store_element(wire + layout.scales(), tile, scale);
  const topk::Grid grid = topk::grid_of(scale);
  for (std::size_t j = 0; j < selection->count; ++j) {
    const std::uint8_t code = topk::encode_value(selection->value[j], grid);
    core::store_element(values, j, code);
    selection->decoded[j] = topk::decode_value(code, grid);
  }
}

/// `low` and `high`: where the bits of the tile begin, which are all zero.
inline void write_places(const Layout& layout, const Selection& selection, std::byte* low,
                         std::byte* high) {
  std::uint64_t pending = 0;
  unsigned bits = 0;
  for (std::size_t j = 0; j < selection.count; ++j) {
    const std::uint64_t index = selection.index[j];
    pending |= (index & ((1u << layout.low_bits) - 1u)) << bits;
    for (bits += layout.low_bits; bits >= 8; bits -= 8, pending >>= 8) {
      *low++ = static_cast<std::byte>(pending);
    }
    const std::size_t place = (index >> layout.low_bits) + j;
    high[place / 8] |= static_cast<std::byte>(1u << (place % 8));
  }
  if (bits > 0) *low = static_cast<std::byte>(pending);
}

/// Writes a tile of a chunk that was cleared, and what its values decode to. `before`: elements
/// that are sent of the tiles before it.
inline void write_tile(const Layout& layout, std::size_t tile, std::size_t before,
                       Selection* selection, std::byte* wire) {
  const auto entry = static_cast<std::uint32_t>(before + selection->count);
  core::store_element(wire, tile, entry);
  write_values(layout, tile, selection, wire,
               wire + layout.values() + before * layout.value_bytes());
  write_places(layout, *selection, wire + layout.low(tile, before),
               wire + layout.high(tile, before));
}

/// The elements of a tile that some bytes name.
struct Places {
  std::size_t before = 0;  // Sent of the tiles before it.
  std::size_t count = 0;
  std::uint64_t marks[kTile / 64] = {};

  /// Calls use(index, number) in order; number: of those of the tile.
  template <typename Use>
  void for_each(Use&& use) const {
    std::size_t number = 0;
    for (std::size_t word = 0; number < count; ++word) {
      for (std::uint64_t left = marks[word]; left != 0; left &= left - 1) {
        use(word * 64 + static_cast<std::size_t>(std::countr_zero(left)), number++);
      }
    }
  }
};

/// `bits` bits, at most 13, from bit number `first` on; nothing beyond their last byte is read.
inline std::uint32_t load_bits(const std::byte* bytes, std::size_t first, unsigned bits) {
  std::uint32_t window = 0;
  std::memcpy(&window, bytes + first / 8, (first % 8 + bits + 7) / 8);
  return (window >> (first % 8)) & ((1u << bits) - 1u);
}

/// False if the bytes do not name as many different elements as places->count.
inline bool read_marks(const Layout& layout, std::size_t tile, const std::byte* wire,
                       Places* places) {
  const std::byte* const low = wire + layout.low(tile, places->before);
  const std::byte* const high = wire + layout.high(tile, places->before);
  const std::size_t bits = layout.parts(tile) + places->count;
  std::size_t number = 0;
  std::size_t different = 0;
  for (std::size_t byte = 0; byte * 8 < bits; ++byte) {
    auto ones = static_cast<std::uint32_t>(high[byte]);
    if (bits - byte * 8 < 8) ones &= (1u << (bits - byte * 8)) - 1u;
    for (; ones != 0; ones &= ones - 1, ++number) {
      if (number == places->count) return false;
      const std::size_t part = byte * 8 + static_cast<std::size_t>(std::countr_zero(ones)) - number;
      const std::size_t index =
          (part << layout.low_bits) | load_bits(low, number * layout.low_bits, layout.low_bits);
      if (index >= layout.elements(tile)) return false;
      std::uint64_t& marks = places->marks[index / 64];
      const std::uint64_t mark = std::uint64_t{1} << (index % 64);
      different += (marks & mark) == 0 ? 1 : 0;
      marks |= mark;
    }
  }
  return different == places->count;
}

/// Of a chunk that is not marked; any bytes.
inline Places read_places(const Layout& layout, std::size_t tile, const std::byte* wire) {
  Places places;
  places.before = tile == 0 ? 0 : directory_entry(wire, tile - 1);
  const std::size_t end = directory_entry(wire, tile);
  if (end < places.before || end > layout.room) return {};
  places.count = end - places.before;
  if (places.count > layout.elements(tile)) return {};
  return read_marks(layout, tile, wire, &places) ? places : Places{};
}

/// Calls use(index, value) for the elements that were sent of a tile, in order.
template <typename Use>
void read_tile(const Layout& layout, std::size_t tile, const std::byte* wire, Use&& use) {
  const Places places = read_places(layout, tile, wire);
  const std::byte* const values = wire + layout.values() + places.before * layout.value_bytes();
  if (layout.value_bits == 16) {
    return places.for_each([&](std::size_t index, std::size_t number) {
      use(index, topk::decode_wide_value(core::load_element<std::uint16_t>(values, number)));
    });
  }
  const auto scale = core::load_element<topk::Scale>(wire + layout.scales(), tile);
  const topk::Grid grid = topk::grid_of(scale);
  places.for_each([&](std::size_t index, std::size_t number) {
    use(index, topk::decode_value(core::load_element<std::uint8_t>(values, number), grid));
  });
}

}  // namespace ringpress::compress_kernels::chunk_topk

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_TILE_CODES_H_
