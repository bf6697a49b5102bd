// Random bits for stochastic rounding: 16 bits per element, the same on every machine.
//
//   counter = { group[0..31], group[32..63], step[0..31], stream },  group = element index / 8
//   key     = { seed[0..31] ^ step[32..63], seed[32..63] }
//   words   = Philox4x32-10(counter, key)
//   element takes 16-bit half (index mod 8) of the four words, low half of word 0 first.
#ifndef COMPRESS_KERNELS_CORE_PHILOX_H_
#define COMPRESS_KERNELS_CORE_PHILOX_H_

#include <Random123/philox.h>

#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::core {

/// Elements that one Philox block serves.
inline constexpr std::uint64_t kElementsPerGroup = 8;

RINGPRESS_HOST_DEVICE inline philox4x32_ctr_t philox_counter(const RandomKey& random,
                                                             std::uint64_t group) {
  return {{static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
           static_cast<std::uint32_t>(random.step), random.stream}};
}

RINGPRESS_HOST_DEVICE inline philox4x32_key_t philox_key(const RandomKey& random) {
  return {{static_cast<std::uint32_t>(random.seed) ^ static_cast<std::uint32_t>(random.step >> 32),
           static_cast<std::uint32_t>(random.seed >> 32)}};
}

/// Word number `index` < 4. A kernel keeps words in registers, which have no index.
RINGPRESS_HOST_DEVICE inline std::uint32_t word_of(const philox4x32_ctr_t& words,
                                                   std::uint32_t index) {
  return index < 2 ? (index == 0 ? words.v[0] : words.v[1])
                   : (index == 2 ? words.v[2] : words.v[3]);
}

/// The 16 random bits of the element `offset` places after random.first_element.
RINGPRESS_HOST_DEVICE inline std::uint32_t random_half(const RandomKey& random,
                                                       std::uint64_t offset) {
  const std::uint64_t element = random.first_element + offset;
  const philox4x32_ctr_t words =
      philox4x32(philox_counter(random, element / kElementsPerGroup), philox_key(random));
  const std::uint32_t half = static_cast<std::uint32_t>(element % kElementsPerGroup);
  return (word_of(words, half / 2) >> (16 * (half % 2))) & 0xFFFFu;
}

/// The middle of the interval that 16 random bits stand for: in (0, 1), mean exactly 1/2.
RINGPRESS_HOST_DEVICE inline float unit_interval(std::uint32_t half) {
  return (static_cast<float>(half) + 0.5f) * (1.0f / 65536.0f);
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_PHILOX_H_
