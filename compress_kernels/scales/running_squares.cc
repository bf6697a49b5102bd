// From results to codes, and what codes gain (scales.h says how). Plain loops in parts that the
// compiler makes vectors of: the order of each sum is written here.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "compress_kernels/core/element.h"
#include "compress_kernels/factory.h"
#include "compress_kernels/scales/scales.h"

namespace ringpress::compress_kernels {
namespace {

constexpr float kScaleFloor = 0.01f;
// What is smaller counts as 0: arithmetic on numbers below the normal ones is not the same in all
// threads.
constexpr float kSmallestSquare = 0x1p-100f;
constexpr std::size_t kSumLanes = 16;
constexpr std::size_t kPiece = 256;

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

/// `ratio`: v / mean v of the block. 3/8 of the logarithm, in halves of octaves.
std::uint8_t code_of(float ratio) {
  const auto bits = std::bit_cast<std::int32_t>(ratio + kScaleFloor);
  const std::int32_t octaves = bits - std::bit_cast<std::int32_t>(kScaleFloor);
  const std::int32_t code = ((octaves >> 2) * 3 + (1 << 22)) >> 23;
  return static_cast<std::uint8_t>(std::min<std::int32_t>(code, scales::kLargestScale));
}

/// A square that is no number leaves v as it was.
float next_square(float v, float x, float weight) {
  const float square = x * x;
  const float now = square <= std::numeric_limits<float>::max() ? square : v;
  const float next = v + (now - v) * weight;
  return next < kSmallestSquare ? 0.0f : next;
}

template <typename T>
void learn(const void* result, std::size_t count, float weight, float* squares) {
  for (std::size_t i = 0; i < count; ++i) {
    squares[i] = next_square(squares[i], core::load_wide<T>(result, i), weight);
  }
}

/// Of one block's values, with and without codes: the square of the largest, and as sums over the
/// block the scales and their reciprocals.
struct BlockExtent {
  float plain = 0;
  float scaled = 0;
  float scales = 0;
  float inverses = 0;
};

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
      const float magnitude = std::abs(core::load_wide<T>(values, i));
      const float inverse = scales::inverse_scale_of(codes[i]);
      const float divided = magnitude * inverse;
      // (A NaN is passed over.)
      plain[lane] = magnitude > plain[lane] ? magnitude : plain[lane];
      scaled[lane] = divided > scaled[lane] ? divided : scaled[lane];
      scales[lane] += scales::scale_of(codes[i]);
      inverses[lane] += inverse;
    }
  }
  BlockExtent extent;
  for (std::size_t lane = 0; lane < kSumLanes; ++lane) {
    extent.plain = std::max(extent.plain, plain[lane]);
    extent.scaled = std::max(extent.scaled, scaled[lane]);
    extent.scales += scales[lane];
    extent.inverses += inverses[lane];
  }
  return extent;
}

template <typename T>
ScaleErrors measure(const void* values, std::size_t count, const std::uint8_t* codes,
                    std::size_t block) {
  ScaleErrors errors;
  for (std::size_t first = 0; first < count; first += block) {
    const BlockExtent extent = extent_of<T>(values, first, std::min(block, count - first), codes);
    if (!(extent.plain <= std::numeric_limits<float>::max())) continue;
    const auto plain = static_cast<double>(extent.plain);
    const auto scaled = static_cast<double>(extent.scaled);
    errors.plain += plain * plain * static_cast<double>(extent.inverses);
    errors.scaled += scaled * scaled * static_cast<double>(extent.scales);
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
    const float sum = sum_of(squares + first, some);
    // A block that is zero so far, or nearly infinite, has one scale.
    const bool has_mean = sum > 0 && sum <= std::numeric_limits<float>::max();
    const float inverse = has_mean ? static_cast<float>(some) / sum : 0.0f;
    for (std::size_t i = first; i < first + some; ++i) codes[i] = code_of(squares[i] * inverse);
  }
}

ScaleErrors measure_scales(const void* values, std::size_t count, DType dtype,
                           const std::uint8_t* codes, std::size_t block) {
  return core::visit_compressible(dtype, [&](auto tag) {
    return measure<typename decltype(tag)::type>(values, count, codes, block);
  });
}

}  // namespace ringpress::compress_kernels
