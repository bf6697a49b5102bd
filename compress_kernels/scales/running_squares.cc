// From results to codes, and what codes gain (scales.h says how). Plain loops in parts that the
// compiler makes vectors of: the order of each sum is that of arithmetic.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/scales/arithmetic.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels {
namespace {

using scales::BlockExtent, scales::kSumLanes;

static_assert(scales::kFloorBits == std::bit_cast<std::int32_t>(scales::kScaleFloor));

/// In lanes, as vectors of any width would.
float sum_of(const float* values, std::size_t count) {
  float lanes[kSumLanes] = {};
  std::size_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) {
    for (std::size_t lane = 0; lane < kSumLanes; ++lane) lanes[lane] += values[i + lane];
  }
  for (; i < count; ++i) lanes[i % kSumLanes] += values[i];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

template <typename T>
void learn(const void* result, std::size_t count, float weight, float* squares) {
  for (std::size_t i = 0; i < count; ++i) {
    squares[i] = scales::next_square(squares[i], core::load_wide<T>(result, i), weight);
  }
}

template <typename T>
BlockExtent extent_of(const void* values, std::size_t first, std::size_t count,
                      const std::uint8_t* codes) {
  float plain[kSumLanes] = {};
  float scaled[kSumLanes] = {};
  float scales[kSumLanes] = {};
  float inverses[kSumLanes] = {};
  for (std::size_t begin = 0; begin < count; begin += kSumLanes) {
    const std::size_t lanes = std::min(kSumLanes, count - begin);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::size_t i = first + begin + lane;
      BlockExtent one{plain[lane], scaled[lane], scales[lane], inverses[lane]};
      scales::add_to_extent(std::abs(core::load_wide<T>(values, i)), scales::scale_of(codes[i]),
                            scales::inverse_scale_of(codes[i]), &one);
      plain[lane] = one.plain;
      scaled[lane] = one.scaled;
      scales[lane] = one.scales;
      inverses[lane] = one.inverses;
    }
  }
  BlockExtent extent;
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    scales::add_lane({plain[lane], scaled[lane], scales[lane], inverses[lane]}, &extent);
  }
  return extent;
}

template <typename T>
ScaleErrors measure(const void* values, std::size_t count, const std::uint8_t* codes,
                    std::size_t block) {
  ScaleErrors errors;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t some = std::min(block, count - first);
    const scales::BlockErrors of_block =
        scales::errors_of(extent_of<T>(values, first, some, codes));
    errors.plain += of_block.plain;
    errors.scaled += of_block.scaled;
  }
  return errors;
}

}  // namespace

void learn_scales(const void* result, std::size_t count, DType dtype, float weight,
                  float* squares) {
  core::visit_compressible(dtype, [&](auto tag) {
    learn<typename decltype(tag)::type>(result, count, weight, squares);
  });
}

void find_scales(const float* squares, std::size_t count, std::size_t block, std::uint8_t* codes) {
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t some = std::min(block, count - first);
    const float inverse = scales::inverse_of_mean(sum_of(squares + first, some), some);
    for (std::size_t i = first; i < first + some; ++i) {
      codes[i] = scales::code_of(squares[i] * inverse);
    }
  }
}

ScaleErrors measure_scales(const void* values, std::size_t count, DType dtype,
                           const std::uint8_t* codes, std::size_t block) {
  return core::visit_compressible(dtype, [&](auto tag) {
    return measure<typename decltype(tag)::type>(values, count, codes, block);
  });
}

bool do_scales_help(const ScaleErrors& errors) {
  return scales::is_helped(errors.plain, errors.scaled);
}

}  // namespace ringpress::compress_kernels
