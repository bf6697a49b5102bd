// A pseudo-random permutation of [0, count) that is evaluated one number at a time: six steps of a
// Feistel network on as many bits as the largest number has, applied again until the result is in
// range (Black and Rogaway, Ciphers with arbitrary finite domains, 2002). At most half of the
// domain is out of range, so that is less than twice on average.
#ifndef COMPRESS_KERNELS_RANDK_PERMUTATION_H_
#define COMPRESS_KERNELS_RANDK_PERMUTATION_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"

namespace ringpress::compress_kernels::randk {

class Permutation {
 public:
  /// Equal seeds and counts give equal permutations.
  RINGPRESS_HOST_DEVICE Permutation(std::uint64_t seed, std::uint64_t count) : count_(count) {
    const int bits = count <= 4 ? 2 : static_cast<int>(std::bit_width(count - 1));
    low_bits_ = bits / 2;
    high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
    low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
    const RandomKey random{seed, count, 0x72616E64, 0};
    for (std::size_t pair = 0; pair < kSteps / 2; ++pair) {
      const philox4x32_ctr_t words =
          philox4x32(core::philox_counter(random, pair), core::philox_key(random));
      keys_[2 * pair] = words.v[0] | std::uint64_t{words.v[1]} << 32;
      keys_[2 * pair + 1] = words.v[2] | std::uint64_t{words.v[3]} << 32;
    }
  }

  RINGPRESS_HOST_DEVICE std::uint64_t operator()(std::uint64_t number) const {
    do number = step_all(number);
    while (number >= count_);
    return number;
  }

 private:
  static constexpr std::size_t kSteps = 6;

  RINGPRESS_HOST_DEVICE static std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ (bits >> 33)) * 0xFF51AFD7ED558CCDu;
    return bits ^ (bits >> 29);
  }

  RINGPRESS_HOST_DEVICE std::uint64_t step_all(std::uint64_t number) const {
    std::uint64_t low = number & low_mask_;
    std::uint64_t high = number >> low_bits_;
    for (std::size_t step = 0; step < kSteps; step += 2) {
      high ^= mix((low + 1) * keys_[step]) & high_mask_;
      low ^= mix((high + 1) * keys_[step + 1]) & low_mask_;
    }
    return high << low_bits_ | low;
  }

  std::uint64_t count_;
  int low_bits_;
  std::uint64_t high_mask_;
  std::uint64_t low_mask_;
  std::uint64_t keys_[kSteps];
};

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_PERMUTATION_H_
