// Scales and codes of the uniform and minmax grids, one block and one value at a time. See
// uniform.h for the arithmetic. The scalar reference and the CUDA kernels share it.
#ifndef COMPRESS_KERNELS_UNIFORM_CODES_H_
#define COMPRESS_KERNELS_UNIFORM_CODES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/float_bits.h"
#include "compress_kernels/core/host_device.h"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels::uniform {

/// The extremes of a block.
struct Extremes {
  std::uint32_t magnitude = 0;  // Bits of the largest |x|.
  float minimum = 0;
  float maximum = 0;
};

/// True if the scale is a mean, for which scale_of() needs scaled_sum().
RINGPRESS_HOST_DEVICE inline bool takes_mean(const UniformParameters& parameters) {
  return parameters.grid == Grid::kUniform && parameters.bits == 1 &&
         parameters.rounding == Rounding::kNearest;
}

/// The scale of a block of `count` values. scaled_sum() gives the sum of |x| / block in the order
/// of core::sum_lanes(); it is called only if takes_mean(). minimum and maximum only matter on
/// minmax.
template <typename ScaledSum>
RINGPRESS_HOST_DEVICE inline core::BlockScale scale_of(const UniformParameters& parameters,
                                                       const Extremes& extremes, std::size_t count,
                                                       ScaledSum&& scaled_sum) {
  if (extremes.magnitude >= core::kInfinityBits) return core::scale_of_nonfinite_block();
  if (parameters.grid == Grid::kMinMax) {
    return core::scale_from_range(extremes.minimum, extremes.maximum, parameters.bits);
  }
  if (parameters.bits > 1) {
    return core::scale_from_magnitude(extremes.magnitude, parameters.bits);
  }
  if (parameters.rounding == Rounding::kStochastic) {
    return core::scale_from_magnitude_one_bit(extremes.magnitude);
  }
  return core::scale_from_mean(extremes.magnitude, scaled_sum(), parameters.block, count);
}

RINGPRESS_HOST_DEVICE inline float limit(float code, int largest) {
  const float positive = code > 0.0f ? code : 0.0f;
  const float top = static_cast<float>(largest);
  return positive < top ? positive : top;
}

/// The code of one finite value. `u` is used by stochastic rounding only.
RINGPRESS_HOST_DEVICE inline std::uint32_t quantise(const UniformParameters& parameters,
                                                    const core::BlockScale& scale, float x,
                                                    float u) {
  const bool stochastic = parameters.rounding == Rounding::kStochastic;
  if (parameters.grid == Grid::kMinMax) {
    const int largest = core::minmax_levels(parameters.bits);
    const float y = limit((x - scale.low) * scale.inverse, largest);
    const float code = stochastic ? std::floor(y + u) : core::round_to_even(y);
    return static_cast<std::uint32_t>(limit(code, largest));
  }
  if (parameters.bits == 1) {
    if (!stochastic) return x >= 0 ? 1 : 0;
    return static_cast<std::uint32_t>(limit(std::floor(x * scale.inverse + 0.5f + u), 1));
  }
  const int levels = core::uniform_levels(parameters.bits);
  const float y = x * scale.inverse;
  if (!stochastic) {
    const float code = core::round_to_even(y) + static_cast<float>(levels);
    return static_cast<std::uint32_t>(limit(code, 2 * levels));
  }
  const float code = std::floor(y + static_cast<float>(levels) + u);
  return static_cast<std::uint32_t>(limit(code, 2 * levels));
}

/// What codes of a block are multiplied with, from its stored bfloat16.
RINGPRESS_HOST_DEVICE inline float step_of(const UniformParameters& parameters,
                                           std::uint16_t stored_unit) {
  return parameters.grid == Grid::kMinMax ? core::minmax_unit(stored_unit)
                                          : core::uniform_unit(stored_unit, parameters.bits);
}

/// `low` only matters on minmax.
RINGPRESS_HOST_DEVICE inline float value_of_code(const UniformParameters& parameters, float low,
                                                 float step, std::uint32_t code) {
  if (parameters.grid == Grid::kMinMax) return low + static_cast<float>(code) * step;
  // A product, not a change of sign: that would show in a NaN.
  if (parameters.bits == 1) return (2 * static_cast<float>(code) - 1) * step;
  const int steps = static_cast<int>(code) - core::uniform_levels(parameters.bits);
  return static_cast<float>(steps) * step;
}

}  // namespace ringpress::compress_kernels::uniform

#endif  // COMPRESS_KERNELS_UNIFORM_CODES_H_
