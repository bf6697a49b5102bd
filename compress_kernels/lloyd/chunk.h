// The blocks of one chunk of qB:grid=lloyd on the wire, one at a time.
#ifndef COMPRESS_KERNELS_LLOYD_CHUNK_H_
#define COMPRESS_KERNELS_LLOYD_CHUNK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/lloyd/block.h"
#include "compress_kernels/lloyd/lloyd.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::lloyd {

/// Where an encoded chunk goes, and in which form.
struct Output : core::EncodeOutput {
  Contributions form;
};

/// The blocks of one chunk.
class Chunk {
 public:
  Chunk(const LloydParameters& parameters, std::size_t count)
      : parameters_(parameters), layout_(lloyd_layout(parameters, count)), count_(count) {}

  std::size_t block_count() const { return layout_.blocks; }
  std::size_t first_of(std::size_t block) const { return block * parameters_.block; }
  std::size_t length_of(std::size_t block) const {
    return std::min(parameters_.block, count_ - first_of(block));
  }

  /// Encodes the values `x` of a block.
  void encode(std::size_t block, const float* x, const RandomKey& random, std::byte* wire) const {
    std::uint32_t codes[kLargestLloydBlock];
    const std::size_t length = length_of(block);
    const BlockRandom block_random{draw_seed(block, random, wire), random, first_of(block)};
    const std::uint16_t stored = encode_block(parameters_, block_random, x, length, codes);
    core::store_element(wire, block, stored);
    const core::Planes<std::uint8_t> planes = planes_of(block, wire);
    std::memset(planes.high, 0, high_bytes(block));
    std::memset(planes.low, 0, low_bytes(block));
    for (std::size_t i = 0; i < length; ++i) {
      core::write_code(planes, i, parameters_.bits, codes[i]);
    }
  }

  /// The values of a block; false if they are all NaN.
  bool decode(std::size_t block, const std::byte* wire, float* x) const {
    std::uint32_t codes[kLargestLloydBlock];
    const std::size_t length = length_of(block);
    const core::Planes<const std::uint8_t> planes = planes_of(block, wire);
    for (std::size_t i = 0; i < length; ++i) {
      codes[i] = core::read_code(planes, i, parameters_.bits);
    }
    const auto stored = core::load_element<std::uint16_t>(wire, block);
    return decode_block(parameters_, read_seed(block, wire), stored, codes, length, x);
  }

  /// Where the codes of a block begin. Blocks have a multiple of 8 values, so that they begin at
  /// whole bytes.
  core::Planes<std::uint8_t> planes_of(std::size_t block, std::byte* wire) const {
    auto* bytes = reinterpret_cast<std::uint8_t*>(wire);
    return {bytes + high_offset(block), bytes + low_offset(block)};
  }
  core::Planes<const std::uint8_t> planes_of(std::size_t block, const std::byte* wire) const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(wire);
    return {bytes + high_offset(block), bytes + low_offset(block)};
  }
  /// Bytes of a block's planes; the second is empty for codes of up to 8 bits.
  std::size_t high_bytes(std::size_t block) const {
    return core::plane_bytes(length_of(block), core::high_plane_bits(parameters_.bits));
  }
  std::size_t low_bytes(std::size_t block) const {
    return core::plane_bytes(length_of(block), core::low_plane_bits(parameters_.bits));
  }
  /// Bytes of the wire behind the block's last code.
  std::size_t bytes_after(std::size_t block) const {
    const std::size_t end = low_bytes(block) == 0 ? high_offset(block) + high_bytes(block)
                                                  : low_offset(block) + low_bytes(block);
    return layout_.total_bytes - end;
  }

  /// The seed of a block to be encoded; puts it on the wire if it belongs there.
  std::uint64_t draw_seed(std::size_t block, const RandomKey& random, std::byte* wire) const {
    if (!parameters_.unbiased) return draw_shared_seed(random, wire);
    const std::uint64_t seed = core::random_half(random, first_of(block)) |
                               core::random_half(random, first_of(block) + 1) << 16;
    core::store_element(wire + layout_.seeds_offset, block, static_cast<std::uint32_t>(seed));
    return seed;
  }
  std::uint64_t read_seed(std::size_t block, const std::byte* wire) const {
    if (!parameters_.unbiased) return read_shared_seed(wire);
    return core::load_element<std::uint32_t>(wire + layout_.seeds_offset, block);
  }

  /// Those of all blocks of the chunk, with biased rounding.
  std::uint64_t draw_shared_seed(const RandomKey& random, std::byte* wire) const {
    if (layout_.seeds == 0) return kSharedSeed;
    const std::uint32_t seed = shared_seed(random);
    core::store_element(wire + layout_.seeds_offset, 0, seed);
    return kSharedSeed | seed;
  }
  std::uint64_t read_shared_seed(const std::byte* wire) const {
    if (layout_.seeds == 0) return kSharedSeed;
    return kSharedSeed | core::load_element<std::uint32_t>(wire + layout_.seeds_offset, 0);
  }

 private:
  std::size_t high_offset(std::size_t block) const {
    return layout_.codes_offset +
           core::plane_bytes(first_of(block), core::high_plane_bits(parameters_.bits));
  }
  std::size_t low_offset(std::size_t block) const {
    return layout_.low_codes_offset +
           core::plane_bytes(first_of(block), core::low_plane_bits(parameters_.bits));
  }

  const LloydParameters& parameters_;
  const LloydLayout layout_;
  const std::size_t count_;
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_CHUNK_H_
