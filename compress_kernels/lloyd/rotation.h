// The rotation of a block: random signs, then the Walsh-Hadamard transform H, strides from large to
// small. H H x = size x, so the same butterflies lead back.
//
// All values of a part are mixed with each other. To leave out the strides that work within a
// vector, the dearest, would make encoding a tenth faster, and the error on gradients and on the
// laws of perf/accuracy.py no larger; but that of values of which every second or fourth is zero up
// to a hundred times.
#ifndef COMPRESS_KERNELS_LLOYD_ROTATION_H_
#define COMPRESS_KERNELS_LLOYD_ROTATION_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "ringpress/internal/codec.h"

namespace ringpress::compress_kernels::lloyd {

/// Largest power of two that is not above `count`; count > 0.
RINGPRESS_HOST_DEVICE inline std::size_t largest_part(std::size_t count) {
  std::size_t size = 1;
  while (size * 2 <= count) size *= 2;
  return size;
}

/// The part of a block of `count` values that value `index` lies in, as its size: parts are aligned
/// to theirs. index < count.
RINGPRESS_HOST_DEVICE inline std::size_t part_of(std::size_t index, std::size_t count) {
  return largest_part(index ^ count);
}

/// Unnormalised, in place; `size` is a power of two.
RINGPRESS_HOST_DEVICE inline void hadamard(float* values, std::size_t size) {
  for (std::size_t stride = size / 2; stride > 0; stride /= 2) {
    for (std::size_t i = 0; i < size; ++i) {
      if ((i & stride) != 0) continue;
      const float a = values[i];
      const float b = values[i + stride];
      values[i] = a + b;
      values[i + stride] = a - b;
    }
  }
}

// The seed that all blocks of a chunk share names the call. If it were the same in every call, what
// error feedback keeps would gather where the levels are worst: a residual that is not rotated anew
// is the same vector to the quantiser each time. It does not name the rank: sums of values that are
// levels of one rotation lose less when they are encoded again (perf/accuracy.py: a ring of 16 a
// tenth of its error at 4 bits, a half at 1 bit).
/// Above all seeds of single blocks, which have 32 bits.
inline constexpr std::uint64_t kSharedSeed = std::uint64_t{1} << 32;

/// The seed on the wire, without kSharedSeed.
RINGPRESS_HOST_DEVICE inline std::uint32_t shared_seed(const RandomKey& random) {
  return static_cast<std::uint32_t>(random.step);
}

/// The random words that give the signs of a block's values: bit (i mod 32) of word i / 32, set for
/// minus. Element i of every block with this seed has the same sign.
inline constexpr std::uint64_t kSignSeed = 0x52494E4750524553ull;
inline constexpr std::size_t kSignWords = 1024 / 32;

/// Words 4 group to 4 group + 3 of rotation number `round`.
RINGPRESS_HOST_DEVICE inline philox4x32_ctr_t sign_words(std::uint64_t seed, int round,
                                                         std::uint32_t group) {
  const philox4x32_key_t key{
      {static_cast<std::uint32_t>(kSignSeed), static_cast<std::uint32_t>(kSignSeed >> 32)}};
  const philox4x32_ctr_t counter{{group, static_cast<std::uint32_t>(seed),
                                  static_cast<std::uint32_t>(round),
                                  static_cast<std::uint32_t>(seed >> 32)}};
  return philox4x32(counter, key);
}

struct Signs {
  std::uint32_t words[kSignWords];

  /// Those of rotation number `round`.
  RINGPRESS_HOST_DEVICE Signs(std::uint64_t seed, int round) {
    for (std::uint32_t group = 0; group < kSignWords / 4; ++group) {
      const philox4x32_ctr_t random = sign_words(seed, round, group);
      for (std::uint32_t k = 0; k < 4; ++k) words[4 * group + k] = random.v[k];
    }
  }

  RINGPRESS_HOST_DEVICE bool is_minus(std::size_t index) const {
    return ((words[index / 32] >> (index % 32)) & 1u) != 0;
  }
};

}  // namespace ringpress::compress_kernels::lloyd

#endif  // COMPRESS_KERNELS_LLOYD_ROTATION_H_
