// q1 .. q8: bytes worked out by hand, extremes, and the mean of stochastic rounding.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compress_kernels/core/philox.h"
#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::uniform_test {
namespace {

std::unique_ptr<Codec> make(const std::string& specification) {
  return make_codec(specification, DType::kFloat32, ReduceOp::kSum).value();
}

std::vector<std::uint8_t> encode(const Codec& codec, const std::vector<float>& values,
                                 const RandomKey& random = {}) {
  std::vector<std::uint8_t> wire(codec.wire_bytes(values.size()));
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.wire = reinterpret_cast<std::byte*>(wire.data());
  args.random = random;
  codec.encode(args);
  return wire;
}

std::vector<float> decode(const Codec& codec, const std::vector<std::uint8_t>& wire,
                          std::size_t count) {
  std::vector<float> values(count);
  codec.decode({reinterpret_cast<const std::byte*>(wire.data()), count, values.data()});
  return values;
}

using Bytes = std::vector<std::uint8_t>;

TEST(UniformBytes, FourBitsAreTwoCodesPerByteLowFirst) {
  // Scale 7 = 0x40E0 in bfloat16; codes are value + 7: 14, 0, 7, 8, 6.
  EXPECT_EQ(encode(*make("q4"), {7, -7, 0, 1, -1}), (Bytes{0xE0, 0x40, 0x0E, 0x87, 0x06}));
}

TEST(UniformBytes, ThreeBitsCrossBytes) {
  // Scale 3 = 0x4040; codes 6, 0, 3, 4, 2: 010 100 011 000 110 from high to low.
  EXPECT_EQ(encode(*make("q3"), {3, -3, 0, 1, -1}), (Bytes{0x40, 0x40, 0xC6, 0x28}));
}

TEST(UniformBytes, OneBitIsSignAndMean) {
  // Mean of 1, 3, 2, 2 is 2 = 0x4000; -0 counts as positive.
  EXPECT_EQ(encode(*make("q1"), {1, -3, 2, -2}), (Bytes{0x00, 0x40, 0x05}));
  EXPECT_EQ(encode(*make("q1"), {-0.0f, 0.0f}), (Bytes{0x00, 0x00, 0x03}));
}

TEST(UniformBytes, ScalesAreRoundedUp) {
  // 1 + 2^-8 lies between the bfloat16 numbers 0x3F80 and 0x3F81.
  EXPECT_EQ(encode(*make("q2:scale=largest"), {1.00390625f}), (Bytes{0x81, 0x3F, 0x02}));
}

TEST(UniformBytes, FewBitsAreStoredWithTheScaleThatFits) {
  // Codes 2 and 2, 1, 0 minus 1: (1 + 0.75) / 2 = 0.875 = 0x3F60 is closest to both.
  EXPECT_EQ(encode(*make("q2"), {1, 0.75f, 0.25f}), (Bytes{0x60, 0x3F, 0x1A}));
  EXPECT_EQ(encode(*make("q2:scale=largest"), {1, 0.75f, 0.25f}), (Bytes{0x80, 0x3F, 0x1A}));
  // Steps 7, 2, -1: 7 (49 + 2 * 1.75 + 0.75) / 54 = 6.903, of which 0x40DD = 6.90625 is nearest.
  EXPECT_EQ(encode(*make("q4"), {7, 1.75f, -0.75f}), (Bytes{0xDD, 0x40, 0x9E, 0x06}));
}

TEST(UniformBytes, TiesGoToTheEvenStep) {
  // Scale 7, step 1: 0.5 -> 0, 1.5 -> 2, -0.5 -> 0, -2.5 -> -2.
  const auto codec = make("q4");
  const auto y = decode(*codec, encode(*codec, {7, 0.5f, 1.5f, -0.5f, -2.5f}), 5);
  EXPECT_EQ(y, (std::vector<float>{7, 0, 2, 0, -2}));
}

TEST(UniformBytes, MinMaxStoresLowsThenSteps) {
  // low -1 = 0xBF800000, step (2 - -1) / 3 = 1 = 0x3F80, codes 0, 3, 1.
  EXPECT_EQ(encode(*make("q2:grid=minmax"), {-1, 2, 0}),
            (Bytes{0x00, 0x00, 0x80, 0xBF, 0x80, 0x3F, 0x1C}));
}

TEST(UniformBytes, EachBlockHasItsOwnScale) {
  std::vector<float> values(64, 1.0f);
  std::fill(values.begin() + 32, values.end(), 4.0f);
  const Bytes wire = encode(*make("q8:block=32"), values);
  EXPECT_EQ((Bytes{wire.begin(), wire.begin() + 4}), (Bytes{0x80, 0x3F, 0x80, 0x40}));
  EXPECT_EQ(wire[4], 254);
  EXPECT_EQ(wire[4 + 63], 254);
}

TEST(UniformBytes, NonFiniteBlockIsNanAndZeroCodes) {
  EXPECT_EQ(encode(*make("q4"), {1, INFINITY}), (Bytes{0xC0, 0x7F, 0x00}));
  EXPECT_EQ(encode(*make("q4:grid=minmax"), {1, -NAN}),
            (Bytes{0x00, 0x00, 0xC0, 0x7F, 0xC0, 0x7F, 0x00}));
}

TEST(Uniform, ConstantBlocksAreExactOnTheMinMaxGrid) {
  const auto codec = make("q3:grid=minmax");
  const std::vector<float> values(200, 0.1f);
  EXPECT_EQ(decode(*codec, encode(*codec, values), 200), values);
}

/// q1 .. q8.
bool is_q(std::string_view name) {
  return name.size() == 2 && name[0] == 'q';
}

TEST(Uniform, LargestFloatsStayFinite) {
  const float largest = std::numeric_limits<float>::max();
  for (const std::string_view name : codec_names()) {
    if (!is_q(name)) continue;
    for (const char* suffix :
         {"", ":grid=minmax", ":round=stochastic", ":grid=minmax,round=stochastic"}) {
      const auto codec = make(std::string(name) + suffix);
      const std::vector<float> values{largest, -largest, 0, largest / 2, -largest / 3};
      std::vector<float> residual(values.size(), 0.0f);
      std::vector<float> decoded(values.size());
      std::vector<std::byte> wire(codec->wire_bytes(values.size()));
      EncodeArgs args;
      args.values = values.data();
      args.count = values.size();
      args.wire = wire.data();
      args.residual = residual.data();
      args.decoded = decoded.data();
      codec->encode(args);
      for (const float y : decoded) EXPECT_TRUE(std::isfinite(y)) << codec->specification();
      for (const float r : residual) EXPECT_TRUE(std::isfinite(r)) << codec->specification();
    }
  }
}

TEST(Uniform, WireDoesNotDependOnTheElementType) {
  const auto floats = to_floats(
      to_elements(
          to_floats(to_elements(draw_floats(2000, Values::kNormal, 1), DType::kFloat16).data(),
                    2000, DType::kFloat16),
          DType::kBfloat16)
          .data(),
      2000, DType::kBfloat16);
  const auto expected = encode(*make("q5"), floats);
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    const auto codec = make_codec("q5", dtype, ReduceOp::kSum).value();
    const auto elements = to_elements(floats, dtype);
    ASSERT_EQ(to_floats(elements.data(), 2000, dtype), floats);
    std::vector<std::uint8_t> wire(codec->wire_bytes(2000));
    EncodeArgs args;
    args.values = elements.data();
    args.count = 2000;
    args.wire = reinterpret_cast<std::byte*>(wire.data());
    codec->encode(args);
    EXPECT_EQ(wire, expected);
  }
}

/// Published test vectors of Philox4x32-10 pin the generator; see the Random123 distribution.
TEST(Philox, MatchesThePublishedVectors) {
  const philox4x32_ctr_t counter{{0, 0, 0, 0}};
  const philox4x32_key_t key{{0, 0}};
  const philox4x32_ctr_t zero = philox4x32(counter, key);
  EXPECT_EQ(zero.v[0], 0x6627e8d5u);
  EXPECT_EQ(zero.v[1], 0xe169c58du);
  EXPECT_EQ(zero.v[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.v[3], 0x9b00dbd8u);
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const auto codec = make("q4:round=stochastic");
  const auto values = draw_floats(1000, Values::kNormal, 3);
  const RandomKey base{1, 2, 3, 8};
  const auto reference = encode(*codec, values, base);
  EXPECT_EQ(encode(*codec, values, base), reference);
  for (const RandomKey& other :
       {RandomKey{9, 2, 3, 8}, RandomKey{1ull << 40, 2, 3, 8}, RandomKey{1, 9, 3, 8},
        RandomKey{1, 2 + (1ull << 40), 3, 8}, RandomKey{1, 2, 9, 8}, RandomKey{1, 2, 3, 9},
        RandomKey{1, 2, 3, 8 + (1ull << 40)}}) {
    EXPECT_NE(encode(*codec, values, other), reference);
  }
}

/// What 2000 calls with fresh random bits decoded to, per value.
struct Spread {
  double error_sum = 0;
  double error_squares = 0;
  float smallest = std::numeric_limits<float>::max();
  float largest = std::numeric_limits<float>::lowest();

  void add(float y, float x) {
    const double error = double{y} - x;
    error_sum += error;
    error_squares += error * error;
    smallest = std::min(smallest, y);
    largest = std::max(largest, y);
  }
};

/// The mean over many calls comes within four standard errors of each value.
void expect_unbiased(const std::string& specification) {
  constexpr std::size_t kCount = 128;  // One block.
  constexpr double kCalls = 2000;
  const auto codec = make(specification);
  const auto values = draw_floats(kCount, Values::kNormal, 11);
  std::vector<Spread> spreads(kCount);
  for (std::uint64_t call = 0; call < static_cast<std::uint64_t>(kCalls); ++call) {
    const auto y = decode(*codec, encode(*codec, values, {5, call, 0, 0}), kCount);
    for (std::size_t i = 0; i < kCount; ++i) spreads[i].add(y[i], values[i]);
  }
  double step = 0;
  for (const Spread& s : spreads) step = std::max(step, double{s.largest} - s.smallest);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double mean = spreads[i].error_sum / kCalls;
    // A value close to a grid point moves so seldom that the spread seen may be zero: count one
    // move.
    const double variance =
        std::max(spreads[i].error_squares / kCalls - mean * mean, step * step / kCalls);
    EXPECT_LE(std::abs(mean), 4 * std::sqrt(variance / kCalls)) << specification << ' ' << i;
  }
}

TEST(Stochastic, IsUnbiased) {
  for (const std::string_view name : codec_names()) {
    if (!is_q(name)) continue;
    expect_unbiased(std::string(name) + ":round=stochastic");
    expect_unbiased(std::string(name) + ":grid=minmax,round=stochastic");
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::uniform_test
