// The specification of qsgd as code: plain loops over the values of a tile.
#include <algorithm>

#include "compress_kernels/core/element.h"
#include "compress_kernels/core/reduce.h"
#include "compress_kernels/qsgd/tile_kernels.h"

namespace ringpress::compress_kernels::qsgd {
namespace {

void load(DType dtype, const void* values, const float* residual, std::size_t first,
          std::size_t count, float* x) {
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = core::load_wide<typename decltype(tag)::type>(values, first + i);
      if (residual != nullptr) x[i] += core::load_element<float>(residual, first + i);
    }
  });
  std::fill(x + count, x + kTileElements, 0.0f);
}

void store(DType dtype, const float* values, std::size_t count, void* array, std::size_t first) {
  core::visit_compressible(dtype, [&](auto tag) {
    for (std::size_t i = 0; i < count; ++i) {
      core::store_wide<typename decltype(tag)::type>(array, first + i, values[i]);
    }
  });
}

void add(const float* values, std::size_t count, float* sum) {
  for (std::size_t i = 0; i < count; ++i) {
    core::store_element<float>(sum, i, core::load_element<float>(sum, i) + values[i]);
  }
}

void divide(std::size_t divisor, std::size_t count, float* values) {
  for (std::size_t i = 0; i < count; ++i) values[i] = core::divide(values[i], divisor);
}

void measure(const float* x, std::uint32_t* magnitudes) {
  std::fill_n(magnitudes, kRows, 0u);
  for (std::size_t i = 0; i < kTileElements; ++i) {
    std::uint32_t& largest = magnitudes[i / kRowElements];
    largest = std::max(largest, core::magnitude_bits(core::load_element<float>(x, i)));
  }
}

void choose_levels(const float* x, const Grids& grids, std::uint32_t* levels) {
  for (std::size_t i = 0; i < kTileElements; ++i) {
    const float value = core::load_element<float>(x, i);
    levels[i] = 0;
    for (std::size_t j = 1; j < grids.grids; ++j) {
      const float inverse = grids.scales->inverse[j][i / kRowElements];
      levels[i] += fits_grid(value, inverse, grids.steps) ? 1 : 0;
    }
  }
}

std::size_t level_of(const Grids& grids, std::size_t i) {
  return grids.levels == nullptr ? 0 : std::min<std::size_t>(grids.levels[i], grids.grids - 1);
}

void quantise(const QuantiseArgs& args, std::uint32_t* codes) {
  const std::uint32_t steps = args.grids.steps;
  for (std::size_t i = 0; i < kTileElements; ++i) {
    const float x = core::load_element<float>(args.x, i);
    const float inverse = args.grids.scales->inverse[level_of(args.grids, i)][i / kRowElements];
    codes[i] = args.is_stochastic ? stochastic_code(x, inverse, steps, args.dither.bias,
                                                    dither_byte(args.dither, i))
                                  : truncated_code(x, inverse, steps);
  }
}

float value_of(const DequantiseArgs& args, std::size_t i) {
  const float unit = args.grids.scales->unit[level_of(args.grids, i)][i / kRowElements];
  const float value = value_of_code(args.codes[i], args.offset, unit);
  return args.divisor == 1 ? value : core::divide(value, args.divisor);
}

void dequantise(const DequantiseArgs& args, float* values) {
  for (std::size_t i = 0; i < kTileElements; ++i) core::store_element(values, i, value_of(args, i));
}

void flush() {}

void subtract(const float* x, const DequantiseArgs& args, std::size_t count, float* residual) {
  for (std::size_t i = 0; i < count; ++i) {
    core::store_element(residual, i, core::load_element<float>(x, i) - value_of(args, i));
  }
}

void lift(std::uint32_t lift, std::uint32_t largest, std::uint32_t* codes) {
  for (std::size_t i = 0; i < kTileElements; ++i) codes[i] = limited_sum(codes[i], lift, largest);
}

void take_lane(const std::uint32_t* numbers, std::size_t lane, std::uint32_t* of_lane) {
  for (std::size_t row = 0; row < kRows; ++row) of_lane[row] = numbers[row * kPackLanes + lane];
}

void pack(const std::uint32_t* numbers, int width, std::byte* bytes) {
  const auto words = static_cast<std::size_t>(width);
  for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
    std::uint32_t lane_words[32];
    std::uint32_t lane_numbers[kRows];
    take_lane(numbers, lane, lane_numbers);
    pack_plain(lane_numbers, kRows, width, reinterpret_cast<std::byte*>(lane_words));
    for (std::size_t word = 0; word < words; ++word) {
      core::store_element(bytes, word * kPackLanes + lane, lane_words[word]);
    }
  }
}

void unpack_add(const std::byte* bytes, int width, std::uint32_t largest, std::uint32_t* numbers) {
  const auto words = static_cast<std::size_t>(width);
  for (std::size_t lane = 0; lane < kPackLanes; ++lane) {
    std::uint32_t lane_words[32];
    std::uint32_t lane_numbers[kRows];
    take_lane(numbers, lane, lane_numbers);
    for (std::size_t word = 0; word < words; ++word) {
      lane_words[word] = core::load_element<std::uint32_t>(bytes, word * kPackLanes + lane);
    }
    unpack_add_plain(reinterpret_cast<const std::byte*>(lane_words), kRows, width, largest,
                     lane_numbers);
    for (std::size_t row = 0; row < kRows; ++row) {
      numbers[row * kPackLanes + lane] = lane_numbers[row];
    }
  }
}

void unpack(const std::byte* bytes, int width, std::uint32_t* numbers) {
  std::fill_n(numbers, kTileElements, 0u);
  unpack_add(bytes, width, ~0u, numbers);
}

void encode(const QuantiseArgs& caller_args, int width, std::byte* bytes) {
  QuantiseArgs args = caller_args;
  float x[kTileElements];
  std::uint32_t codes[kTileElements];
  load(DType::kFloat32, caller_args.x, args.residual, 0, kTileElements, x);
  args.x = x;
  quantise(args, codes);
  pack(codes, width, bytes);
  if (args.residual == nullptr) return;
  subtract(x, {codes, args.grids.steps, args.grids}, kTileElements, args.residual);
}

}  // namespace

const TileKernels& reference_kernels() {
  static constexpr TileKernels kKernels{load,          store,    add,    divide,     measure,
                                        choose_levels, quantise, encode, dequantise, flush,
                                        subtract,      lift,     pack,   unpack,     unpack_add};
  return kKernels;
}

}  // namespace ringpress::compress_kernels::qsgd
