// How coordinates are cut into slices, and what becomes of a slice: shared with kernels.
#ifndef COMPRESS_KERNELS_RANDK_SLICES_H_
#define COMPRESS_KERNELS_RANDK_SLICES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "compress_kernels/core/host_device.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/reduce.h"
#include "ringpress/codec.h"

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

  /// The slice whose number finish() left in the state: a whole number below 2^24, so exact.
  RINGPRESS_HOST_DEVICE std::size_t of_state(float state) const {
    return static_cast<std::size_t>(state) % number;
  }
  /// What stands in the state once a slice has been sent.
  RINGPRESS_HOST_DEVICE float state_after(std::size_t slice) const {
    return static_cast<float>((slice + 1) % number);
  }
};

/// The slice that is taken when nothing is known of earlier calls.
RINGPRESS_HOST_DEVICE inline std::size_t draw_slice(const RandomKey& random, const Slices& slices) {
  const philox4x32_ctr_t words =
      philox4x32(core::philox_counter(random, random.first_element), core::philox_key(random));
  return words.v[0] % slices.number;
}

/// What the sum of a coordinate becomes. `factor`: the number of slices if unbiased, else 1.
RINGPRESS_HOST_DEVICE inline float result_of(float sum, std::size_t divisor, float factor) {
  return core::divide(sum, divisor) * factor;
}

}  // namespace ringpress::compress_kernels::randk

#endif  // COMPRESS_KERNELS_RANDK_SLICES_H_
