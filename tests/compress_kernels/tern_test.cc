// tern: bytes worked out by hand, every byte, clipping, and the statistics of its random digits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/tern/digits.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::tern_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::unique_ptr<Codec> make(const std::string& specification) {
  return make_codec(specification, DType::kFloat32, ReduceOp::kSum).value();
}

Bytes encode(const Codec& codec, const std::vector<float>& values, const RandomKey& random = {}) {
  Bytes wire(codec.wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = reinterpret_cast<std::byte*>(wire.data());
  args.random = random;
  codec.encode(args);
  return wire;
}

std::vector<float> decode(const Codec& codec, const Bytes& wire, std::size_t count) {
  std::vector<float> values(count);
  codec.decode({reinterpret_cast<const std::byte*>(wire.data()), count, values.data()});
  return values;
}

/// Values of the scale's magnitude, and zeros, leave nothing to chance.
TEST(TernBytes, AreFiveDigitsEach) {
  // Scale 1 = 0x3F80; digits 2, 0, 1, 2, 2: 2 + 9 + 54 + 162.
  EXPECT_EQ(encode(*make("tern"), {1, -1, 0, 1, 1}), (Bytes{0x80, 0x3F, 227}));
  // Two bytes: values 0, 2, 4, 6 and 1, 3, 5. Digits 2, 0, 1, 1 and 1, 2, 0; missing ones are 0.
  EXPECT_EQ(encode(*make("tern"), {1, 0, -1, 1, 0, -1, 0}), (Bytes{0x80, 0x3F, 38, 7}));
}

TEST(TernBytes, AreOneAndSixTenthsBitsAValue) {
  const auto codec = make("tern:block=1024");
  EXPECT_EQ(codec->wire_bytes(1024), 2u + 205u);
  EXPECT_EQ(codec->wire_bytes(3 * 1024 + 6), 2u * 4u + 3 * 205u + 2u);
  EXPECT_EQ(codec->wire_bytes(0), 0u);
}

TEST(TernBytes, NonFiniteBlockIsNanAndMiddleDigits) {
  // Digits 1, 1.
  EXPECT_EQ(encode(*make("tern"), {1, -INFINITY}), (Bytes{0xC0, 0x7F, 4}));
}

TEST(Tern, EveryByteDecodesAlikeOnEveryInstructionSet) {
  const std::size_t count = 2048 + 700;
  const auto codec = make("tern:block=64");
  Bytes wire(codec->wire_bytes(count));
  std::iota(wire.begin(), wire.end(), std::uint8_t{0});
  ASSERT_TRUE(force_isa("scalar").is_ok());
  const auto expected = decode(*make("tern:block=64"), wire, count);
  for (const std::string& isa : available_isas()) {
    ASSERT_TRUE(force_isa(isa).is_ok());
    const auto y = decode(*make("tern:block=64"), wire, count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(y[i] == expected[i] || (std::isnan(y[i]) && std::isnan(expected[i])))
          << isa << ' ' << i;
    }
  }
  ASSERT_TRUE(force_isa("").is_ok());
}

TEST(Tern, LargestFloatsStayFinite) {
  const float largest = std::numeric_limits<float>::max();
  for (const char* specification : {"tern", "tern:clip=2.5"}) {
    const auto codec = make(specification);
    const std::vector<float> x{largest, -largest, 0, largest / 2};
    const auto y = decode(*codec, encode(*codec, x), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(std::isfinite(x[i] - y[i]));
    EXPECT_GT(y[0], largest / 2);
    EXPECT_LT(y[1], -largest / 2);
  }
}

TEST(Tern, ClippingLimitsTheScaleToMultiplesOfTheRootMeanSquare) {
  std::vector<float> x(64, 1.0f);
  x[3] = -100;
  const auto codec = make("tern:block=64,clip=2");
  const double rms = std::sqrt((63 + 1e4) / 64);
  const auto y = decode(*codec, encode(*codec, x), x.size());
  EXPECT_GE(-y[3], 2 * rms * 0.99999);
  EXPECT_LE(-y[3], 2 * rms * 1.01);
  // A block of one magnitude is not clipped.
  const std::vector<float> even(64, 3.0f);
  EXPECT_EQ(decode(*codec, encode(*codec, even), 64), even);
}

TEST(Tern, SpellsEqualClipsAlikeAndNamesWrongOnes) {
  EXPECT_EQ(normalize_specification("tern:clip=2.50").value(), "tern:block=128,clip=2.5");
  EXPECT_EQ(normalize_specification("tern:clip=0.0").value(), "tern:block=128,clip=0");
  for (const char* text : {"tern:clip=0.5", "tern:clip=-1", "tern:clip=nan", "tern:clip=inf",
                           "tern:clip=", "tern:clip=2.5x", "tern:clip=101"}) {
    const auto result = normalize_specification(text);
    ASSERT_FALSE(result.is_ok()) << text;
    EXPECT_NE(result.status().message().find("from 1 to 100"), std::string::npos) << text;
  }
}

TEST(Tern, RandomBitsDifferByStepStreamAndPlace) {
  const auto codec = make("tern");
  const std::vector<float> x = draw_floats(1024, Values::kNormal, 3);
  const Bytes wire = encode(*codec, x);
  EXPECT_EQ(wire, encode(*codec, x));
  EXPECT_NE(wire, encode(*codec, x, {1, 0, 0, 0}));
  EXPECT_NE(wire, encode(*codec, x, {0, 1, 0, 0}));
  EXPECT_NE(wire, encode(*codec, x, {0, 0, 1, 0}));
  EXPECT_NE(wire, encode(*codec, x, {0, 0, 0, 1024}));
}

/// Each coordinate's mean over 2000 calls is its value, within 4 standard errors. The deviation is
/// that of the law: small values may not be drawn once.
TEST(Tern, IsUnbiased) {
  constexpr int kRepetitions = 2000;
  for (const char* specification : {"tern", "tern:block=32", "tern:block=1024"}) {
    const auto codec = make(specification);
    const auto x = draw_floats(1300, Values::kNormal, 5);
    std::vector<double> sum(x.size());
    std::vector<float> scale(x.size());
    for (int repetition = 0; repetition < kRepetitions; ++repetition) {
      RandomKey random;
      random.step = static_cast<std::uint64_t>(repetition);
      const auto y = decode(*codec, encode(*codec, x, random), x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum[i] += y[i];
        scale[i] = std::max(scale[i], std::abs(y[i]));
      }
    }
    std::size_t beyond_four = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (scale[i] == 0) continue;  // Not drawn once: its scale is unknown here.
      const double mean = sum[i] / kRepetitions;
      const double p = std::min(1.0, double{std::abs(x[i])} / scale[i]);
      const double deviation = scale[i] * std::sqrt(p * (1 - p) / kRepetitions);
      const double error = std::abs(mean - x[i]) - 0x1p-15 * scale[i];
      if (error > 4 * deviation) ++beyond_four;
      EXPECT_LE(error, 5 * deviation) << specification << ' ' << i << ' ' << x[i];
    }
    EXPECT_LE(beyond_four, 1u) << specification;
  }
}

/// The random bits of values that share some: each uniform, and their covariance as stated.
TEST(Tern, ValuesThatShareBitsHardlyDependOnEachOther) {
  constexpr std::size_t kDraws = 20000;
  for (const std::size_t other : {32u, 64u, 96u}) {
    for (const double p : {0.03, 0.25, 0.5}) {
      double both = 0;
      double first = 0;
      double second = 0;
      for (std::size_t draw = 0; draw < kDraws; ++draw) {
        RandomKey random;
        random.step = draw;
        const double a = tern::random_fraction(random, 0, 5) < p * tern::kOne ? 1 : 0;
        const double b = tern::random_fraction(random, 0, 5 + other) < p * tern::kOne ? 1 : 0;
        first += a / kDraws;
        second += b / kDraws;
        both += a * b / kDraws;
      }
      const double deviation = std::sqrt(p * (1 - p) / kDraws);
      EXPECT_NEAR(first, p, 5 * deviation);
      EXPECT_NEAR(second, p, 5 * deviation);
      EXPECT_NEAR(both - first * second, 0, 1.0 / 64 + 5 * deviation) << other << ' ' << p;
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::tern_test
