// The specification of q1 .. q8 as code: plain loops over blocks and elements.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "compress_kernels/core/bit_pack.h"
#include "compress_kernels/core/block_scale.h"
#include "compress_kernels/core/element.h"
#include "compress_kernels/core/encode_output.h"
#include "compress_kernels/core/philox.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/uniform/codes.h"
#include "compress_kernels/uniform/uniform.h"

namespace ringpress::compress_kernels {
namespace uniform {
namespace {

core::Planes<std::uint8_t> planes_of(std::byte* wire, const UniformLayout& layout) {
  auto* bytes = reinterpret_cast<std::uint8_t*>(wire);
  return {bytes + layout.codes_offset, bytes + layout.low_codes_offset};
}
core::Planes<const std::uint8_t> planes_of(const std::byte* wire, const UniformLayout& layout) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(wire);
  return {bytes + layout.codes_offset, bytes + layout.low_codes_offset};
}

Extremes find_extremes(const float* x, std::size_t count) {
  Extremes extremes{0, x[0], x[0]};
  for (std::size_t i = 0; i < count; ++i) {
    extremes.magnitude = std::max(extremes.magnitude, core::magnitude_bits(x[i]));
    extremes.minimum = std::min(extremes.minimum, x[i]);
    extremes.maximum = std::max(extremes.maximum, x[i]);
  }
  return extremes;
}

/// Sum of |x| / block in the fixed order of sum_lanes().
float scaled_sum(const float* x, std::size_t count, std::size_t block) {
  std::array<float, core::kSumLanes> lanes{};
  const float factor = 1.0f / static_cast<float>(block);
  for (std::size_t i = 0; i < count; ++i) {
    lanes[i % core::kSumLanes] += core::float_of(core::magnitude_bits(x[i])) * factor;
  }
  return core::sum_lanes(lanes.data());
}

core::BlockScale measure(const UniformParameters& parameters, const float* x, std::size_t count) {
  return scale_of(parameters, find_extremes(x, count), count,
                  [&] { return scaled_sum(x, count, parameters.block); });
}

/// The scale that is stored.
std::uint16_t stored_unit(const UniformParameters& parameters, const core::BlockScale& scale,
                          const float* x, std::size_t count) {
  if (!takes_fit(parameters) || scale.stored_unit == core::kBfloat16Nan) return scale.stored_unit;
  core::FitSums sums;
  for (std::size_t i = 0; i < count; ++i) {
    core::add_to_fit(x[i] * scale.inverse, core::fit_rounding(parameters.bits), &sums);
  }
  return core::fitted_unit(scale.stored_unit, sums);
}

float decode_element(const UniformParameters& parameters, const std::byte* wire,
                     const UniformLayout& layout, std::size_t index) {
  const std::size_t block = index / parameters.block;
  const float low =
      parameters.grid == Grid::kMinMax ? core::load_element<float>(wire, block) : 0.0f;
  const auto stored_unit = core::load_element<std::uint16_t>(wire + layout.units_offset, block);
  const std::uint32_t code = core::read_code(planes_of(wire, layout), index, parameters.bits);
  return value_of_code(parameters, low, step_of(parameters, stored_unit), code);
}

/// Encodes the block that starts at element `first`. `x` holds its `count` values.
void encode_block(const UniformParameters& parameters, const UniformLayout& layout, const float* x,
                  std::size_t first, std::size_t count, const core::EncodeOutput& output) {
  const core::BlockScale scale = measure(parameters, x, count);
  const bool finite = scale.stored_unit != core::kBfloat16Nan;
  const std::uint16_t unit = stored_unit(parameters, scale, x, count);
  const float step = step_of(parameters, unit);
  const std::size_t block = first / parameters.block;
  if (parameters.grid == Grid::kMinMax) core::store_element(output.wire, block, scale.low);
  core::store_element(output.wire + layout.units_offset, block, unit);
  for (std::size_t i = 0; i < count; ++i) {
    const float u = parameters.rounding == Rounding::kStochastic
                        ? core::unit_interval(core::random_half(output.random, first + i))
                        : 0.0f;
    const std::uint32_t code = finite ? quantise(parameters, scale, x[i], u) : 0;
    core::write_code(planes_of(output.wire, layout), first + i, parameters.bits, code);
    const float value = value_of_code(parameters, scale.low, step, code);
    if (output.residual != nullptr && finite) {
      core::store_element<float>(output.residual, first + i, x[i] - value);
    }
    if (output.decoded == nullptr) continue;
    core::store_wide(parameters.dtype, output.decoded, first + i, value);
  }
}

/// Encodes `count` values, given one at a time by value(index); adds the residual first.
template <typename Value>
void encode_values(const UniformParameters& parameters, std::size_t count,
                   const core::EncodeOutput& output, Value&& value) {
  const UniformLayout layout = uniform_layout(parameters, count);
  std::memset(output.wire + layout.codes_offset, 0, layout.total_bytes - layout.codes_offset);
  std::array<float, kLargestBlock> x;
  for (std::size_t first = 0; first < count; first += parameters.block) {
    const std::size_t length = std::min(parameters.block, count - first);
    for (std::size_t i = 0; i < length; ++i) {
      x[i] = value(first + i);
      if (output.residual != nullptr) {
        x[i] += core::load_element<float>(output.residual, first + i);
      }
    }
    encode_block(parameters, layout, x.data(), first, length, output);
  }
}

void encode(const UniformParameters& parameters, const EncodeArgs& args) {
  const core::EncodeOutput output = core::output_of(args);
  encode_values(parameters, args.count, output,
                [&](std::size_t i) { return core::load_wide(parameters.dtype, args.values, i); });
}

void decode(const UniformParameters& parameters, const DecodeArgs& args) {
  const UniformLayout layout = uniform_layout(parameters, args.count);
  for (std::size_t i = 0; i < args.count; ++i) {
    const float value = decode_element(parameters, args.wire, layout, i);
    core::store_wide(parameters.dtype, args.values, i, value);
  }
}

void decode_add(const UniformParameters& parameters, const DecodeAddArgs& args) {
  const UniformLayout layout = uniform_layout(parameters, args.count);
  for (std::size_t i = 0; i < args.count; ++i) {
    const float value = decode_element(parameters, args.wire, layout, i);
    core::store_element<float>(args.sum, i, core::load_element<float>(args.sum, i) + value);
  }
}

void decode_add_encode(const UniformParameters& parameters, const DecodeAddEncodeArgs& args) {
  const UniformParameters part = parameters_of_parts(parameters);
  const UniformLayout layout = uniform_layout(part, args.count);
  const auto value = [&](std::size_t i) {
    const float sum = core::reduce_in_order<ReduceOp::kSum>(
        args.wires.size(), args.own_position,
        [&](std::size_t k) { return decode_element(part, args.wires[k], layout, i); },
        [&] { return core::load_wide(parameters.dtype, args.values, i); });
    return args.divisor == 1 ? sum : core::divide(sum, args.divisor);
  };
  if (args.wire != nullptr) {
    encode_values(parameters, args.count, core::output_of(args), value);
    return;
  }
  core::store_values(parameters.dtype, args.decoded, args.count, value);
}

}  // namespace

const KernelTable<UniformParameters>& reference_kernels() {
  static constexpr KernelTable<UniformParameters> kTable{encode, decode, decode_add,
                                                         decode_add_encode};
  return kTable;
}

}  // namespace uniform

/// With e, the rest of a rounding, the scale is 1 + (sum of e c) / (sum of c c) times that of the
/// codes. That is worst for the largest code, where all others are 1 and all rests pull one way.
/// With codes of up to 1 no value is above its step, and the scale lies between half of it and one.
double fitted_steps(int bits, std::size_t block) {
  if (bits == 2) return 0.5;
  const double others = static_cast<double>(block - 1);
  const double code = std::min<double>(core::uniform_levels(bits), std::sqrt(others));
  return 0.5 + 0.5 * code * others / (code * code + others);
}

}  // namespace ringpress::compress_kernels
