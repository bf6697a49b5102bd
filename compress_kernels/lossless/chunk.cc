// Whole chunks: tiles one after the other, whatever the kernels; and the promise that the wire is
// never larger than the input.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory_resource>
#include <vector>

#include "compress_kernels/core/element.h"
#include "compress_kernels/lossless/lossless.h"
#include "compress_kernels/lossless/tile.h"

namespace ringpress::compress_kernels::lossless {
namespace {

/// One tile of elements.
struct Elements {
  alignas(64) std::byte bytes[kTileElements * sizeof(float)];
};

/// Appends tiles to a wire until they would no longer be smaller than the elements.
class TileWriter {
 public:
  TileWriter(const Chunks& chunks, std::size_t count, std::byte* wire)
      : kernels_(*chunks.kernels), wire_(wire), room_(count * chunks.element_bytes) {}

  bool is_smaller() const { return is_smaller_; }
  std::size_t written() const { return written_; }

  void append(const void* values, std::size_t count) {
    if (!is_smaller_) return;
    const std::size_t left = room_ - written_;
    if (left >= kTileSpace) {
      written_ += kernels_.encode(values, count, wire_ + written_);
      is_smaller_ = written_ < room_;
      return;
    }
    std::byte scratch[kTileSpace];
    const std::size_t bytes = kernels_.encode(values, count, scratch);
    is_smaller_ = bytes < left;
    if (!is_smaller_) return;
    std::memcpy(wire_ + written_, scratch, bytes);
    written_ += bytes;
  }

 private:
  const TileKernels& kernels_;
  std::byte* wire_;
  std::size_t room_;
  std::size_t written_ = 0;
  bool is_smaller_ = true;
};

/// Takes tiles from a wire. Bytes that make no tile, and all after them, give zeros.
class TileReader {
 public:
  TileReader(const Chunks& chunks, std::size_t count, const std::byte* wire, std::size_t bytes)
      : chunks_(&chunks), wire_(wire), left_(bytes) {
    is_raw_ = bytes >= count * chunks.element_bytes;
  }

  /// The next tile, decoded to `values`.
  void take(std::size_t count, void* values) {
    const std::size_t bytes = is_raw_ ? count * chunks_->element_bytes : decode(count, values);
    if (is_raw_) std::memcpy(values, wire_, bytes);
    wire_ += bytes;
    left_ -= bytes;
  }
  /// The next tile, where it is or decoded to `scratch`.
  const void* take_or_view(std::size_t count, Elements& scratch) {
    if (!is_raw_) {
      take(count, scratch.bytes);
      return scratch.bytes;
    }
    const std::byte* values = wire_;
    wire_ += count * chunks_->element_bytes;
    return values;
  }

 private:
  std::size_t decode(std::size_t count, void* values) {
    std::size_t bytes = 0;
    if (left_ >= kLargestCodedTile + kReadAhead) {
      bytes = chunks_->kernels->decode(wire_, left_, count, values);
    } else if (left_ > 0) {
      std::byte scratch[kLargestCodedTile + 2 * kReadAhead];
      std::memcpy(scratch, wire_, left_);
      std::memset(scratch + left_, 0, kReadAhead);
      bytes = chunks_->kernels->decode(scratch, left_, count, values);
    }
    if (bytes > 0) return bytes;
    std::memset(values, 0, count * chunks_->element_bytes);
    return left_;
  }

  const Chunks* chunks_;
  const std::byte* wire_;
  std::size_t left_;
  bool is_raw_;
};

/// Calls body(first, count) for each tile.
template <typename Body>
void for_each_tile(std::size_t count, Body&& body) {
  for (std::size_t first = 0; first < count; first += kTileElements) {
    body(first, std::min(kTileElements, count - first));
  }
}

/// The hop, tile by tile.
class Hop {
 public:
  Hop(const Chunks& chunks, const DecodeAddEncodeArgs& args) : chunks_(chunks), args_(args) {
    readers_.reserve(args.wires.size());
    for (std::size_t k = 0; k < args.wires.size(); ++k) {
      readers_.emplace_back(chunks, args.count, args.wires[k], args.wire_sizes[k]);
    }
  }

  /// The elements of the next tile.
  const Elements& reduce(std::size_t first, std::size_t count) {
    const TileKernels& kernels = *chunks_.kernels;
    for (std::size_t position = 0; position <= readers_.size(); ++position) {
      const auto* values = static_cast<const std::byte*>(args_.values);
      const void* operand = values + first * chunks_.element_bytes;
      if (position != args_.own_position) {
        const std::size_t k = position > args_.own_position ? position - 1 : position;
        operand = readers_[k].take_or_view(count, part_);
      }
      (position == 0 ? kernels.load : kernels.add)(operand, count, sum_);
    }
    kernels.finish(sum_, args_.divisor, count, result_.bytes);
    return result_;
  }

 private:
  const Chunks& chunks_;
  const DecodeAddEncodeArgs& args_;
  // Few enough ranks need no heap.
  std::array<std::byte, 64 * sizeof(TileReader)> room_;
  std::pmr::monotonic_buffer_resource memory_{room_.data(), room_.size()};
  std::pmr::vector<TileReader> readers_{&memory_};
  alignas(64) float sum_[kTileElements];
  Elements part_;
  Elements result_;
};

/// Encodes the tiles that tile(first, count) gives, and stores them in `decoded` if that is not
/// null. Returns 0 if they would not become smaller.
template <typename Tile>
std::size_t encode_tiles(const Chunks& chunks, std::size_t count, std::byte* wire, void* decoded,
                         Tile&& tile) {
  TileWriter writer(chunks, count, wire);
  for_each_tile(count, [&](std::size_t first, std::size_t length) {
    const void* values = tile(first, length);
    if (wire != nullptr) writer.append(values, length);
    if (decoded == nullptr) return;
    std::byte* to = static_cast<std::byte*>(decoded) + first * chunks.element_bytes;
    if (to != values) std::memcpy(to, values, length * chunks.element_bytes);
  });
  return wire != nullptr && writer.is_smaller() ? writer.written() : 0;
}

std::size_t reduce_tiles(const Chunks& chunks, const DecodeAddEncodeArgs& args, std::byte* wire,
                         void* sums) {
  Hop hop(chunks, args);
  return encode_tiles(chunks, args.count, wire, sums,
                      [&](std::size_t first, std::size_t count) -> const void* {
                        return hop.reduce(first, count).bytes;
                      });
}

}  // namespace

std::size_t Chunks::encode(const EncodeArgs& args) const {
  RINGPRESS_EXPECTS(args.residual == nullptr, "lossless: nothing is lost, so nothing is kept");
  const auto* values = static_cast<const std::byte*>(args.values);
  const std::size_t bytes =
      encode_tiles(*this, args.count, args.wire, args.decoded,
                   [&](std::size_t first, std::size_t) { return values + first * element_bytes; });
  if (bytes > 0) return bytes;
  std::memcpy(args.wire, values, args.count * element_bytes);
  return args.count * element_bytes;
}

void Chunks::decode(const DecodeArgs& args) const {
  TileReader reader(*this, args.count, args.wire, args.wire_size);
  for_each_tile(args.count, [&](std::size_t first, std::size_t count) {
    reader.take(count, static_cast<std::byte*>(args.values) + first * element_bytes);
  });
}

void Chunks::decode_add(const DecodeAddArgs& args) const {
  TileReader reader(*this, args.count, args.wire, args.wire_size);
  Elements scratch;
  alignas(64) float sum[kTileElements];
  for_each_tile(args.count, [&](std::size_t first, std::size_t count) {
    std::byte* to = static_cast<std::byte*>(args.sum) + first * sizeof(float);
    std::memcpy(sum, to, count * sizeof(float));
    kernels->add(reader.take_or_view(count, scratch), count, sum);
    std::memcpy(to, sum, count * sizeof(float));
  });
}

std::size_t Chunks::decode_add_encode(const DecodeAddEncodeArgs& args) const {
  RINGPRESS_EXPECTS(args.residual == nullptr, "lossless: nothing is lost, so nothing is kept");
  std::size_t bytes = reduce_tiles(*this, args, args.wire, args.decoded);
  if (bytes > 0 || args.wire == nullptr) return bytes;
  // The sums would not become smaller. `decoded` has them, in place of own values if it is those.
  bytes = args.count * element_bytes;
  if (args.decoded != nullptr) {
    std::memcpy(args.wire, args.decoded, bytes);
  } else {
    reduce_tiles(*this, args, nullptr, args.wire);
  }
  return bytes;
}

}  // namespace ringpress::compress_kernels::lossless
