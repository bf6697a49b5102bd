// The random bits of stochastic rounding on a shared grid: 8 for each value, and 7 that all values
// of one call on one rank share. Together they make the offset u = (256 byte + 2 low + 1) / 65536
// of a value uniform over 2^15 points of (0, 1) with mean exactly 1/2, so that the expectation of
// each code is the value to within 2^-15 of a step (float32 rounding of the sum included). Values
// share no more than the last 7 bits: what that makes their rounding errors have in common is at
// most 2^-18 of a squared step.
//
//   tile      first = random.first_element + index in the chunk of its first value
//   block b   Philox4x32-7({first[0..31], first[32..63] ^ (b << 26), step[0..31], stream},
//                           {seed[0..31] ^ step[32..63], seed[32..63] ^ kByteDomain}),  b = 0..63
//   byte      of value i of the tile, row r = i / 32: byte r mod 4 of word (r mod 16) / 4 of block
//             (i mod 32) + 32 (r / 16)
//   low       the lowest 7 bits of word 0 of the block with counter {0, 0, step[0..31], stream} and
//             kLowDomain
#ifndef COMPRESS_KERNELS_QSGD_DITHER_H_
#define COMPRESS_KERNELS_QSGD_DITHER_H_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"

namespace ringpress::compress_kernels::qsgd {

inline constexpr std::uint32_t kByteDomain = 0x71736764u;
inline constexpr std::uint32_t kLowDomain = 0x6C6F7762u;
/// Values whose bytes one Philox block holds, one below the other.
inline constexpr std::size_t kDitherRows = 16;
/// The fewest with which Philox4x32 passes all statistical tests of TestU01 (Salmon et al., 2011).
inline constexpr unsigned kDitherRounds = 7;

/// The random bits of one tile.
struct Dither {
  philox4x32_key_t key{};
  philox4x32_ctr_t counter{};  // Of block 0.
  float bias = 0;              // 256 steps + (2 low + 1) / 256: exact in float32.
};

/// The bias of a call.
RINGPRESS_HOST_DEVICE inline float dither_bias(const RandomKey& random, std::uint32_t steps) {
  philox4x32_key_t key = core::philox_key(random);
  key.v[1] ^= kLowDomain;
  const std::uint32_t low =
      philox4x32_R(kDitherRounds, core::philox_counter(random, 0), key).v[0] & 127u;
  return static_cast<float>(256u * steps) + static_cast<float>(2 * low + 1) * 0x1p-8f;
}

RINGPRESS_HOST_DEVICE inline Dither dither_of_tile(const RandomKey& random, std::size_t first,
                                                   float bias) {
  Dither dither{core::philox_key(random),
                core::philox_counter(random, random.first_element + first), bias};
  dither.key.v[1] ^= kByteDomain;
  return dither;
}

RINGPRESS_HOST_DEVICE inline std::uint32_t block_counter(std::uint32_t word, std::size_t block) {
  return word ^ (static_cast<std::uint32_t>(block) << 26);
}

/// The words of one block.
RINGPRESS_HOST_DEVICE inline philox4x32_ctr_t dither_words(const Dither& dither,
                                                           std::size_t block) {
  philox4x32_ctr_t counter = dither.counter;
  counter.v[1] = block_counter(counter.v[1], block);
  return philox4x32_R(kDitherRounds, counter, dither.key);
}

/// The byte of a row, of the words of its block.
RINGPRESS_HOST_DEVICE inline std::uint32_t byte_of_row(const philox4x32_ctr_t& words,
                                                       std::size_t row) {
  return (words.v[row % kDitherRows / 4] >> (8 * (row % 4))) & 0xFFu;
}

/// The byte of value `index` of a tile.
RINGPRESS_HOST_DEVICE inline std::uint32_t dither_byte(const Dither& dither, std::size_t index) {
  const std::size_t row = index / 32;
  return byte_of_row(dither_words(dither, index % 32 + 32 * (row / kDitherRows)), row);
}

}  // namespace ringpress::compress_kernels::qsgd

#endif  // COMPRESS_KERNELS_QSGD_DITHER_H_
