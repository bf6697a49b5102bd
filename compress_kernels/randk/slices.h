// How coordinates are cut into slices, and what becomes of a slice: shared with kernels.
#ifndef COMPRESS_KERNELS_RANDK_SLICES_H_
#define COMPRESS_KERNELS_RANDK_SLICES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/reduce.h"

namespace ringpress::compress_kernels::randk {

/// Where a tensor is in its cycles of slices: what is kept of it, in whole numbers below 2^24,
/// which are exact. The slice of its first call, and how many calls have come since.
struct SlicePlace {
  float first = 0;
  float turn = 0;
};

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

  /// The slice of a tensor of which nothing is kept: by CollectiveContext::turn.
  std::size_t of_turn(std::uint64_t turn) const { return static_cast<std::size_t>(turn % number); }
  RINGPRESS_HOST_DEVICE std::size_t of_place(SlicePlace place) const {
    return at(static_cast<std::size_t>(place.first), static_cast<std::uint64_t>(place.turn));
  }
  /// That of the call after one that has been sent.
  RINGPRESS_HOST_DEVICE SlicePlace place_after(SlicePlace place) const {
    const std::uint64_t turns = (std::uint64_t{1} << 24) / (2 * number) * (2 * number);
    const std::uint64_t next = (static_cast<std::uint64_t>(place.turn) + 1) % turns;
    return {place.first, static_cast<float>(next)};
  }

 private:
  /// Each `number` turns take all slices, and so do each `2 * number` turns if two tensors have
  /// them by turns: with an even number, the second half begins with a slice of the other's. Where
  /// the pairs of cycles begin is spread evenly, so that each of several tensors takes all slices
  /// equally often in the long run. (By turn % number, some would never take some.)
  RINGPRESS_HOST_DEVICE std::size_t at(std::size_t slice, std::uint64_t turn) const {
    const std::uint64_t pair = turn / (2 * number), of_pair = turn % (2 * number);
    const std::uint64_t begin = (pair * 0x9E3779B97F4A7C15U >> 32) % number;
    const std::uint64_t shift = of_pair >= number && number % 2 == 0 ? 1 : 0;
    return static_cast<std::size_t>((slice + begin + of_pair + shift) % number);
  }
};

/// What the sum of a coordinate becomes. `factor`: the number of slices if unbiased, else 1.
RINGPRESS_HOST_DEVICE inline float result_of(float sum, std::size_t divisor, float factor) {
  return core::divide(sum, divisor) * factor;
}

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_SLICES_H_
