// The short way of kernels with codes of 4 and 8 bits gives the codes and values of codes.h, and
// their short way of narrowing those of narrow().
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "compress_kernels/core/simt_memory.cuh"
#include "compress_kernels/uniform/codes.h"
#include "compress_kernels/uniform/nearest_group.cuh"
#include "tests/support/simt.h"

namespace ringpress::compress_kernels::nearest_group_test {
namespace {

using Group = float[core::kGroup];

UniformParameters parameters_of(int bits) {
  UniformParameters parameters;
  parameters.bits = bits;
  return parameters;
}

template <int kBits>
std::uint32_t code_of(const uniform::CodeWords<kBits>& codes, unsigned k) {
  return codes.words[k * kBits / 32] >> (k * kBits % 32) & ((1u << kBits) - 1u);
}

/// Largest magnitudes of blocks: of each exponent a few and those next to a bfloat16, or to the
/// middle between two.
std::vector<std::uint32_t> largest_magnitudes() {
  std::vector<std::uint32_t> found;
  for (std::uint32_t upper = 27u << 7; upper <= 0x7F7Fu; ++upper) {
    const bool takes_all = upper < 32u << 7 || upper > 250u << 7 || upper / 128 == 127;
    if (!takes_all && upper % 37 != 0) continue;
    for (const std::uint32_t lower : {0u, 1u, 2u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFEu, 0xFFFFu}) {
      found.push_back(upper << 16 | lower);
    }
  }
  return found;
}

/// Values of a block with that magnitude: the extremes, and the middles between steps and what is
/// next to them.
std::vector<float> values_below(float largest, int levels) {
  std::vector<float> found = {largest, -largest, 0.0f, -0.0f};
  for (int i = 0; i<levels; i += levels> 20 ? 9 : 1) {
    const float middle = largest / static_cast<float>(levels) * (static_cast<float>(i) + 0.5f);
    for (const float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, largest)}) {
      found.push_back(value);
      found.push_back(-value);
    }
  }
  return found;
}

template <int kBits>
void check_quantise() {
  const UniformParameters parameters = parameters_of(kBits);
  for (const std::uint32_t largest : largest_magnitudes()) {
    const core::BlockScale scale = core::scale_from_magnitude(largest, kBits);
    const float step = uniform::step_of(parameters, scale.stored_unit);
    std::vector<float> values = values_below(core::float_of(largest), core::uniform_levels(kBits));
    values.resize((values.size() + core::kGroup - 1) / core::kGroup * core::kGroup);
    for (std::size_t first = 0; first < values.size(); first += core::kGroup) {
      Group x, rounded;
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(first), core::kGroup, x);
      uniform::round_group<kBits>(x, scale.inverse, rounded);
      const auto codes = uniform::join_group<kBits>(rounded);
      for (unsigned k = 0; k < core::kGroup; ++k) {
        const std::uint32_t code = uniform::quantise(parameters, scale, x[k], 0);
        ASSERT_EQ(code_of<kBits>(codes, k), code) << x[k] << " of " << core::float_of(largest);
        ASSERT_EQ(core::bits_of(uniform::steps_of_rounded<kBits>(rounded[k]) * step),
                  core::bits_of(uniform::value_of_code(parameters, 0, step, code)));
      }
    }
  }
}

TEST(NearestGroup, CodesAreThoseOfTheReference) {
  check_quantise<4>();
  check_quantise<8>();
}

/// All codes, those that nobody writes among them, in all places; with any scale.
template <int kBits>
void check_split() {
  const UniformParameters parameters = parameters_of(kBits);
  for (std::uint32_t code = 0; code < 1u << kBits; ++code) {
    for (unsigned k = 0; k < core::kGroup; ++k) {
      uniform::CodeWords<kBits> codes;
      for (std::uint32_t& word : codes.words) word = 0xFFFFFFFFu;
      codes.words[k * kBits / 32] ^= (((1u << kBits) - 1u) ^ code) << (k * kBits % 32);
      Group steps;
      uniform::split_group<kBits>(codes, steps);
      ASSERT_EQ(steps[k], static_cast<float>(static_cast<int>(code) - core::uniform_levels(kBits)));
      for (const std::uint16_t stored : {0x0000, 0x0001, 0x0123, 0x3F80, 0x7F7F, 0x7F80, 0x7FC0}) {
        const float step = uniform::step_of(parameters, stored);
        ASSERT_EQ(core::bits_of(steps[k] * step),
                  core::bits_of(uniform::value_of_code(parameters, 0, step, code)));
      }
    }
  }
}

TEST(NearestGroup, ValuesAreThoseOfTheReference) {
  check_split<4>();
  check_split<8>();
}

/// What a lane stores for values that are special in one place each.
template <typename T>
void check_narrow() {
  const float special[] = {NAN,
                           -NAN,
                           core::float_of(0x7F800001u),
                           core::float_of(0xFFABCDEFu),
                           INFINITY,
                           -INFINITY,
                           std::numeric_limits<float>::max(),
                           -std::numeric_limits<float>::max(),
                           std::numeric_limits<float>::denorm_min(),
                           65504.0f,
                           65520.0f,
                           -0.0f,
                           1.00390625f};
  ringpress::testing::LaunchShape shape;
  shape.warps = 1;
  for (const float value : special) {
    for (const float other : special) {
      for (unsigned place = 0; place < core::kGroup; ++place) {
        Group x = {1, 2, 3, 4, 5, 6, 7, 8};
        x[place] = value;
        x[(place + 3) % core::kGroup] = other;
        alignas(16) T stored[core::kGroup];
        ringpress::testing::launch(shape, place, [&](const ringpress::testing::FiberSimt& simt) {
          if (simt.lane() == 0) core::store_group<T>(simt, stored, 0, core::kGroup, x);
        });
        for (unsigned k = 0; k < core::kGroup; ++k) {
          ASSERT_EQ(stored[k].bits, core::narrow<T>(x[k]).bits) << x[k];
        }
      }
    }
  }
}

TEST(NearestGroup, EveryNanKeepsItsPayload) {
  check_narrow<core::Float16>();
  check_narrow<core::Bfloat16>();
}

}  // namespace
}  // namespace ringpress::compress_kernels::nearest_group_test
