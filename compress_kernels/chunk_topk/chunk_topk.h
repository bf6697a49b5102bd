// topk:select=chunk: the largest values of a chunk, as many of every chunk of its length, so that
// all bytes are where the length says. Kernels on a device make it too: nobody has to wait for a
// size, and ranks agree on nothing.
//
// Of n elements k = ceil(density n) have room. The wire bytes are five regions, each in tiles of
// 8192 elements, the last one shorter. Bits are packed least significant first, integers are
// little-endian, what is not used is zero.
//
//   directory   4 bytes a tile       elements that are sent of this tile and those before it;
//                                    0xFFFFFFFF in all entries of a marked chunk
//   scales      4 bytes a tile       value=8 only: of the tile's values, see topk/value_code.h
//   values      1 or 2 bytes each    in the order of their places
//   low bits    l bits each          of the element's index in its tile; l = floor(log2(1 /
//                                    density)), at most 13
//   high bits   a bit map a tile     bit h + j is set for element j of those sent, h = index >> l
//                                    (Elias and Fano, 1974)
//
// The last two begin at a byte of their own in each tile, and share none with another tile: see
// Layout. That takes log2(1 / density) + 2 bits for each place, about, and 64 bits for each tile.
//
// What is selected. x = value + residual has a class: bits 19 to 30 of its float, the exponent and
// 4 bits of mantissa; NaN and infinities are one class, the largest. Class 0 (zeros, and what is
// below 2^-130) is never selected. Classes are taken from the largest down while there is room, and
// of the first one that does not fit as a whole the elements that come first: k in all, or all that
// are not of class 0. If more than k elements are not finite the chunk is marked: nothing is sent
// and every element decodes to NaN, so that no NaN gets lost.
//
// encode()  x of the selected elements becomes d, the value on the wire. r = x - d there, r = x
//           elsewhere; an element whose x is not finite keeps its r, in a marked chunk all do.
//
// decode_add_encode() encodes y = (sum of what was sent and of own values in full, in the given
// order) / divisor as encode() does its values: k of the sums are selected anew.
//
// Any bytes decode: a tile whose directory entry is smaller than the one before it or above k, or
// that does not name as many different elements as its entry says, has none.
//
// The error of an element is at most its magnitude. What is selected depends on the whole chunk, so
// the values depend on where a tensor is cut into chunks. A chunk has fewer than 2^31 elements.
#ifndef COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_H_
#define COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/kernel_codec.h"
#include "compress_kernels/topk/topk.h"
#include "ringpress/internal/types.h"

namespace ringpress::compress_kernels {

struct ChunkTopkParameters {
  double density = 0.01;  // Of elements that have room.
  int value_bits = 8;     // 8 or 16.
  DType dtype = DType::kFloat32;
};

namespace chunk_topk {

inline constexpr std::size_t kTile = 8192;  // Elements.
inline constexpr unsigned kMostLowBits = 13;
inline constexpr std::size_t kEntryBytes = 4;  // Of the directory, and of the scales.
inline constexpr std::uint32_t kMarked = 0xFFFFFFFFu;

// Bits of a float below those that its class is made of, and the classes that there are.
inline constexpr unsigned kClassShift = 19;
inline constexpr std::uint32_t kLargestClass = 0xFF0;
inline constexpr std::size_t kClasses = kLargestClass + 1;

RINGPRESS_HOST_DEVICE inline std::uint32_t class_of(float x) {
  const std::uint32_t exact = core::magnitude_bits(x) >> kClassShift;
  return exact < kLargestClass ? exact : kLargestClass;
}

/// All elements of classes above `lowest`, and so many of it. Without room for a class of their
/// own, zeros are never selected: then `lowest` is their class, and the quota 0.
struct Threshold {
  std::uint32_t lowest = 0;
  std::size_t quota = 0;
};

/// From density alone: a longer chunk never takes fewer bytes.
inline unsigned low_bits(double density) {
  unsigned bits = 0;
  while (bits < kMostLowBits && density * static_cast<double>(2u << bits) <= 1) ++bits;
  return bits;
}

/// Where everything is, in bytes from the start of a chunk that has elements.
///
/// Codes of c bits in all, before which there are b, begin at byte floor(b / 8) + t of their
/// region, t the number of their tile. They end within ceil(c / 8) bytes, and
///
///   floor(b / 8) + ceil(c / 8) <= floor((b + c) / 8) + 1
///
/// so that the next tile, t + 1, begins behind them: with b = 8 B + u and c = 8 C + v (u and v
/// below 8) the left side is B + C + (v > 0), the right one B + C + floor((u + v) / 8) + 1.
struct Layout {
  std::size_t count = 0;  // Elements of the chunk.
  std::size_t room = 0;   // Those that can be sent: k.
  int value_bits = 8;
  unsigned low_bits = 0;

  RINGPRESS_HOST_DEVICE std::size_t tiles() const { return (count + kTile - 1) / kTile; }
  RINGPRESS_HOST_DEVICE std::size_t elements(std::size_t tile) const {
    const std::size_t rest = count - tile * kTile;
    return rest < kTile ? rest : kTile;
  }
  RINGPRESS_HOST_DEVICE std::size_t value_bytes() const { return value_bits == 8 ? 1 : 2; }
  /// Values that the high part of an index in a tile has.
  RINGPRESS_HOST_DEVICE std::size_t parts(std::size_t tile) const {
    return parts_before(tile + 1) - parts_before(tile);
  }

  RINGPRESS_HOST_DEVICE std::size_t scales() const { return kEntryBytes * tiles(); }
  RINGPRESS_HOST_DEVICE std::size_t values() const {
    return value_bits == 8 ? 2 * kEntryBytes * tiles() : kEntryBytes * tiles();
  }
  /// `before`: elements that are sent of the tiles before this one. Of tile number tiles(): the
  /// end.
  RINGPRESS_HOST_DEVICE std::size_t low(std::size_t tile, std::size_t before) const {
    return values() + room * value_bytes() + before * low_bits / 8 + tile;
  }
  RINGPRESS_HOST_DEVICE std::size_t high(std::size_t tile, std::size_t before) const {
    return low(tiles(), room) + (parts_before(tile) + before) / 8 + tile;
  }
  RINGPRESS_HOST_DEVICE std::size_t bytes() const { return high(tiles(), room); }

 private:
  RINGPRESS_HOST_DEVICE std::size_t parts_before(std::size_t tile) const {
    const std::size_t before = tile * kTile < count ? tile * kTile : count;
    return (before + (std::size_t{1} << low_bits) - 1) >> low_bits;
  }
};

inline Layout layout_of(const ChunkTopkParameters& parameters, std::size_t count) {
  return {count, topk::selected_count(parameters.density, count), parameters.value_bits,
          low_bits(parameters.density)};
}

/// The specification: a plain loop for each thing that it says.
const KernelTable<ChunkTopkParameters>& reference_kernels();
/// Whatever the Highway target: two passes over the values, which memory and counters limit, not
/// the width of vectors.
const KernelTable<ChunkTopkParameters>* simd_kernels(std::int64_t target);

}  // namespace chunk_topk

inline std::size_t encoded_bytes(const ChunkTopkParameters& parameters, std::size_t count) {
  return count == 0 ? 0 : chunk_topk::layout_of(parameters, count).bytes();
}

}  // namespace ringpress::compress_kernels

#endif  // COMPRESS_KERNELS_CHUNK_TOPK_CHUNK_TOPK_H_
