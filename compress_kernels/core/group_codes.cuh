// Codes and random bits of a group of 8 values, which one lane holds.
#ifndef COMPRESS_KERNELS_CORE_GROUP_CODES_CUH_
#define COMPRESS_KERNELS_CORE_GROUP_CODES_CUH_

#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/simt_memory.cuh"

namespace ringpress::compress_kernels::core {

/// Bytes that the `valid` codes of one plane take.
RINGPRESS_DEVICE unsigned group_plane_bytes(unsigned valid, int plane_bits) {
  return (valid * static_cast<unsigned>(plane_bits) + 7) / 8;
}

/// Writes the codes of the group that begins with element `index`; those beyond `valid` are 0.
template <typename Simt>
RINGPRESS_DEVICE void store_codes(const Simt& simt, Planes<std::byte> planes, std::size_t index,
                                  unsigned valid, int bits, const std::uint32_t (&codes)[kGroup]) {
  const int low_bits = low_plane_bits(bits);
  const int high_bits = high_plane_bits(bits);
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) {
    high |= static_cast<std::uint64_t>(codes[k] >> low_bits)
            << (k * static_cast<unsigned>(high_bits));
    const std::uint32_t rest = codes[k] & ((1u << low_bits) - 1u);
    low |= static_cast<std::uint64_t>(rest) << (k * static_cast<unsigned>(low_bits));
  }
  const std::size_t group = index / kGroup;
  store_bytes(simt, planes.high + group * static_cast<std::size_t>(high_bits),
              group_plane_bytes(valid, high_bits), high);
  if (low_bits == 0) return;
  store_bytes(simt, planes.low + group * static_cast<std::size_t>(low_bits),
              group_plane_bytes(valid, low_bits), low);
}

/// Reads only bytes that hold a part of the `valid` codes.
template <typename Simt>
RINGPRESS_DEVICE void load_codes(const Simt& simt, Planes<const std::byte> planes,
                                 std::size_t index, unsigned valid, int bits,
                                 std::uint32_t (&codes)[kGroup]) {
  const int low_bits = low_plane_bits(bits);
  const int high_bits = high_plane_bits(bits);
  const std::size_t group = index / kGroup;
  const std::uint64_t high =
      load_bytes(simt, planes.high + group * static_cast<std::size_t>(high_bits),
                 group_plane_bytes(valid, high_bits));
  std::uint64_t low = 0;
  if (low_bits != 0) {
    low = load_bytes(simt, planes.low + group * static_cast<std::size_t>(low_bits),
                     group_plane_bytes(valid, low_bits));
  }
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) {
    const auto upper = static_cast<std::uint32_t>(high >> (k * static_cast<unsigned>(high_bits)));
    const auto lower = static_cast<std::uint32_t>(low >> (k * static_cast<unsigned>(low_bits)));
    codes[k] = (upper & ((1u << high_bits) - 1u)) << low_bits | (lower & ((1u << low_bits) - 1u));
  }
}

/// unit_interval(random_half()) of the 8 elements from `index` on.
RINGPRESS_DEVICE void draw_group(const RandomKey& random, std::size_t index, float (&u)[kGroup]) {
  const std::uint64_t element = random.first_element + index;
  const std::uint64_t group = element / kElementsPerGroup;
  const philox4x32_key_t key = philox_key(random);
  const philox4x32_ctr_t first = philox4x32(philox_counter(random, group), key);
  std::uint32_t words[8] = {first.v[0], first.v[1], first.v[2], first.v[3], 0, 0, 0, 0};
  const auto skipped = static_cast<std::uint32_t>(element % kElementsPerGroup);
  if (skipped != 0) {
    const philox4x32_ctr_t second = philox4x32(philox_counter(random, group + 1), key);
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 4; ++i) words[4 + i] = second.v[i];
    // By 4, 2 and 1 elements: no index depends on `skipped`, so that all stays in registers.
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 6; ++i) words[i] = (skipped & 4u) != 0 ? words[i + 2] : words[i];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 5; ++i) words[i] = (skipped & 2u) != 0 ? words[i + 1] : words[i];
    RINGPRESS_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      words[i] = (skipped & 1u) != 0 ? words[i] >> 16 | words[i + 1] << 16 : words[i];
    }
  }
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < kGroup; ++k) {
    u[k] = unit_interval(words[k / 2] >> (16 * (k % 2)) & 0xFFFFu);
  }
}

}  // namespace ringpress::compress_kernels::core

#endif  // COMPRESS_KERNELS_CORE_GROUP_CODES_CUH_
