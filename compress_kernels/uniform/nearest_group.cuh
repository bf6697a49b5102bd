// The arithmetic of codes.h for a group of 8 values in few instructions: codes of 4 or 8 bits on
// the uniform grid, rounded to nearest. The codes and values are the same.
//
// Whole numbers below 2^23 are the low bits of a float between 2^23 and 2^24, so nothing is
// converted: a value is rounded by adding such a float, codes are put together by sums of shifted
// bits, modulo 2^32, and taken apart by a mask. They need no limit. |x| is at most the scale s,
// which is the largest |x| rounded up, and the product of x and L / s, both rounded, is then below
// L + 1/2. Where s could not be rounded up, as it is the largest bfloat16, |x| is at most 1.004
// times as large, and the product below 127.499 for L = 127.
#ifndef COMPRESS_KERNELS_UNIFORM_NEAREST_GROUP_CUH_
#define COMPRESS_KERNELS_UNIFORM_NEAREST_GROUP_CUH_

#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/core/tile_agent.cuh"

namespace ringpress::compress_kernels::uniform {

/// The codes of a group, the first one lowest.
template <int kBits>
struct alignas(kBits) CodeWords {
  static_assert(kBits == 4 || kBits == 8);
  std::uint32_t words[kBits / 4];
};

namespace internal {

inline constexpr float kFirstWhole = 8388608.0f;  // 2^23: floats from here on are whole numbers.
inline constexpr std::uint32_t kFirstWholeBits = 0x4B000000u;

/// Codes that lie in 16 bits.
template <int kBits>
inline constexpr unsigned kCodesOfHalf = 16 / kBits;

/// What rounds: 2^23, and an even number that makes all sums larger than that.
template <int kBits>
inline constexpr float kRounding = kFirstWhole + static_cast<float>(1 << (kBits - 1));

/// What the bits of rounded values have above their codes.
inline constexpr std::uint32_t kAboveCode = kFirstWholeBits + 1;

/// Code number `k` of the lower half of a word, minus L.
template <int kBits>
RINGPRESS_DEVICE float steps_of(std::uint32_t half, unsigned k) {
  const std::uint32_t mask = ((1u << kBits) - 1u) << (k * kBits);
  const float inverse_unit = 1.0f / static_cast<float>(1u << (k * kBits));
  const float zero = kFirstWhole * inverse_unit + static_cast<float>(core::uniform_levels(kBits));
  return core::add_exact_product(core::float_of((half & mask) | kFirstWholeBits), inverse_unit,
                                 -zero);
}

}  // namespace internal

/// rounded: internal::kRounding more than the steps of the grid, whole numbers from -L to L; no
/// steps in a constant block. Values are finite, else it is of no use.
template <int kBits>
RINGPRESS_DEVICE void round_group(const float (&x)[core::kGroup], float inverse,
                                  float (&rounded)[core::kGroup]) {
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < core::kGroup; ++k) {
    rounded[k] = x[k] * inverse + internal::kRounding<kBits>;
  }
}

template <int kBits>
RINGPRESS_DEVICE float steps_of_rounded(float rounded) {
  return rounded - internal::kRounding<kBits>;
}

template <int kBits>
RINGPRESS_DEVICE CodeWords<kBits> join_group(const float (&rounded)[core::kGroup]) {
  constexpr unsigned kOfWord = 32 / kBits;
  CodeWords<kBits> codes;
  RINGPRESS_UNROLL
  for (unsigned w = 0; w < kBits / 4; ++w) {
    std::uint32_t sum = 0;
    std::uint32_t above = 0;
    RINGPRESS_UNROLL
    for (unsigned k = 0; k < kOfWord; ++k) {
      sum += core::bits_of(rounded[w * kOfWord + k]) << (k * kBits);
      above += internal::kAboveCode << (k * kBits);
    }
    codes.words[w] = sum - above;
  }
  return codes;
}

template <int kBits>
RINGPRESS_DEVICE void split_group(const CodeWords<kBits>& codes, float (&steps)[core::kGroup]) {
  constexpr unsigned kOfHalf = internal::kCodesOfHalf<kBits>;
  RINGPRESS_UNROLL
  for (unsigned k = 0; k < core::kGroup; ++k) {
    const std::uint32_t word = codes.words[k / (2 * kOfHalf)];
    const std::uint32_t half = k / kOfHalf % 2 == 0 ? word : word >> 16;
    steps[k] = internal::steps_of<kBits>(half, k % kOfHalf);
  }
}

/// Writes the codes of the lane's group of a row. Where tiles are whole, `codes` is aligned to
/// kBits bytes.
template <int kBits, typename Simt, typename TileOf>
RINGPRESS_DEVICE void store_row_codes(const Simt& simt, const TileOf& tile, unsigned row,
                                      const CodeWords<kBits>& of_row, std::byte* codes) {
  std::byte* const to = codes + tile.group(row) * kBits;
  if constexpr (TileOf::kIsWhole) {
    simt.store(to, of_row);
  } else {
    const unsigned valid = tile.valid(row);
    std::uint64_t bytes = of_row.words[0];
    if constexpr (kBits == 8) bytes |= static_cast<std::uint64_t>(of_row.words[1]) << 32;
    if (valid < core::kGroup) bytes &= (std::uint64_t{1} << (valid * kBits)) - 1;
    core::store_bytes(simt, to, (valid * kBits + 7) / 8, bytes);
  }
}

/// As store_row_codes().
template <int kBits, typename Simt, typename TileOf>
RINGPRESS_DEVICE CodeWords<kBits> load_row_codes(const Simt& simt, const TileOf& tile, unsigned row,
                                                 const std::byte* codes) {
  const std::byte* const from = codes + tile.group(row) * kBits;
  if constexpr (TileOf::kIsWhole) {
    return simt.template load<CodeWords<kBits>>(from);
  } else {
    const std::uint64_t bytes = core::load_bytes(simt, from, (tile.valid(row) * kBits + 7) / 8);
    CodeWords<kBits> of_row{};
    of_row.words[0] = static_cast<std::uint32_t>(bytes);
    if constexpr (kBits == 8) of_row.words[1] = static_cast<std::uint32_t>(bytes >> 32);
    return of_row;
  }
}

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_NEAREST_GROUP_CUH_
