// How coordinates are cut into slices, and what becomes of a slice: shared with kernels.
#ifndef COMPRESS_KERNELS_RANDK_SLICES_H_
#define COMPRESS_KERNELS_RANDK_SLICES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/reduce.h"
#include "ringpress/internal/hash.h"

namespace ringpress::compress_kernels::randk {

/// How `count` coordinates are cut into slices; none make one empty slice.
struct Slices {
  std::size_t count = 1;
  std::size_t number = 1;

  Slices() = default;
  Slices(double density, std::size_t coordinates) : count(coordinates) {
    if (count == 0) return;
    const double wanted = std::ceil(density * static_cast<double>(count));
    const std::size_t chosen = std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, count);
    number = (count + chosen - 1) / chosen;
  }

  RINGPRESS_HOST_DEVICE std::size_t first(std::size_t slice) const {
    const std::size_t longer = count % number;
    return slice * (count / number) + (slice < longer ? slice : longer);
  }
  RINGPRESS_HOST_DEVICE std::size_t length(std::size_t slice) const {
    return count / number + (slice < count % number ? 1 : 0);
  }
  RINGPRESS_HOST_DEVICE std::size_t longest() const { return length(0); }

  /// The slice of a tensor of which nothing is kept, as its place among its step's calls is not
  /// known. Each `number` turns take all slices: the first ones 0, 1, 2, ..., later ones begin with
  /// another. So each of several tensors of one length, which share the turns, takes all of them
  /// equally often in the long run. With turn % number, a tensor that has every second or fourth
  /// turn would never take some.
  std::size_t of_turn(std::uint64_t turn) const {
    const std::uint64_t cycle = turn / number, begin = mix_bits(cycle) % number;
    return static_cast<std::size_t>((turn % number + begin) % number);
  }
  /// The slice whose number finish() left in the state: a whole number below 2^24, so exact.
  RINGPRESS_HOST_DEVICE std::size_t of_state(float state) const {
    return static_cast<std::size_t>(state) % number;
  }
  /// What stands in the state once a slice has been sent.
  RINGPRESS_HOST_DEVICE float state_after(std::size_t slice) const {
    return static_cast<float>((slice + 1) % number);
  }
};

/// What the sum of a coordinate becomes. `factor`: the number of slices if unbiased, else 1.
RINGPRESS_HOST_DEVICE inline float result_of(float sum, std::size_t divisor, float factor) {
  return core::divide(sum, divisor) * factor;
}

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_SLICES_H_
