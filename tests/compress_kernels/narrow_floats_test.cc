// Conversions of the narrow floating-point types against an independent rounding in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"

namespace ringpress::compress_kernels::core::narrow_floats_test {
namespace {

/// A binary format: mantissa bits, exponent bias and the largest finite value.
struct Format {
  int mantissa;
  int bias;
  double largest;
};

/// `x` rounded to the format to nearest even, without a limit to the exponent above.
double round_to_format(double x, const Format& format) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), 1 - format.bias);
  return std::ldexp(std::nearbyint(std::ldexp(x, format.mantissa - exponent)),
                    exponent - format.mantissa);
}

std::vector<float> interesting_floats() {
  std::vector<float> values;
  std::mt19937 engine(1);
  for (int i = 0; i < 400000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  // Midpoints between neighbours and their surroundings, in and around the range of each format.
  for (std::uint32_t exponent = 90; exponent < 150; ++exponent) {
    for (std::uint32_t top = 0; top < 2048; ++top) {
      const std::uint32_t bits = (exponent << 23) | (top << 12);
      values.push_back(std::bit_cast<float>(bits));
      values.push_back(std::bit_cast<float>(bits + 1));
      values.push_back(-std::bit_cast<float>(bits - 1));
    }
  }
  return values;
}

template <typename T>
void check(const Format& format, bool saturates) {
  for (const float x : interesting_floats()) {
    if (!std::isfinite(x)) continue;
    const double expected = round_to_format(x, format);
    const float actual = widen(narrow<T>(x));
    if (std::abs(expected) <= format.largest) {
      ASSERT_EQ(actual, expected) << x;
      ASSERT_EQ(std::signbit(actual), std::signbit(x)) << x;
    } else if (saturates) {
      ASSERT_EQ(actual, std::copysign(format.largest, x)) << x;
    } else {
      ASSERT_EQ(actual, std::copysign(INFINITY, x)) << x;
    }
  }
}

TEST(NarrowFloats, RoundToNearestEven) {
  check<Float16>({10, 15, 65504}, false);
  check<Bfloat16>({7, 127, 0x1.FEp127}, false);
  check<Float8e4m3>({3, 7, 448}, true);
  check<Float8e5m2>({2, 15, 57344}, true);
}

template <typename T, typename Bits>
void check_round_trip() {
  for (unsigned code = 0; code <= std::numeric_limits<Bits>::max(); ++code) {
    const T value{static_cast<Bits>(code)};
    const float wide = widen(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(widen(narrow<T>(wide)))) << code;
    } else {
      ASSERT_EQ(narrow<T>(wide).bits, code);
    }
  }
}

TEST(NarrowFloats, EveryCodeSurvivesARoundTrip) {
  check_round_trip<Float16, std::uint16_t>();
  check_round_trip<Bfloat16, std::uint16_t>();
  check_round_trip<Float8e4m3, std::uint8_t>();
  check_round_trip<Float8e5m2, std::uint8_t>();
}

TEST(NarrowFloats, NonFiniteStaysNonFinite) {
  for (const float x : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(std::isfinite(widen(narrow<Float16>(x))));
    EXPECT_FALSE(std::isfinite(widen(narrow<Bfloat16>(x))));
    EXPECT_FALSE(std::isfinite(widen(narrow<Float8e4m3>(x))));
    EXPECT_FALSE(std::isfinite(widen(narrow<Float8e5m2>(x))));
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::core::narrow_floats_test
