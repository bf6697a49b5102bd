// q2 .. q6 are decoded with the scale of least squares: what is lost is at right angles to what is
// decoded, and smaller than with the largest magnitude as the scale.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::testing::fit_test {
namespace {

constexpr std::size_t kCount = 4096;

std::vector<float> transmit(const std::string& specification, const std::vector<float>& values,
                            std::vector<float>* residual = nullptr) {
  const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum).value();
  std::vector<std::byte> wire(codec->wire_bytes(values.size()));
  std::vector<float> decoded(values.size());
  EncodeArgs args;
  args.values = values.data();
  args.count = values.size();
  args.residual = residual == nullptr ? nullptr : residual->data();
  args.wire = wire.data();
  codec->encode(args);
  codec->decode({wire.data(), decoded.size(), decoded.data()});
  return decoded;
}

double product(const float* a, const float* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return sum;
}

double squares_lost(const float* x, const float* y, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::pow(double{x[i]} - y[i], 2);
  return sum;
}

std::string fitted(int bits, std::size_t block) {
  return "q" + std::to_string(bits) + ":block=" + std::to_string(block);
}

TEST(Fit, NoOtherScaleIsCloserToABlock) {
  const auto x = draw_floats(kCount, Values::kNormal, 1);
  for (int bits = 2; bits <= 6; ++bits) {
    for (const std::size_t block : {32u, 128u, 1024u}) {
      const auto y = transmit(fitted(bits, block), x);
      const auto largest = transmit(fitted(bits, block) + ",scale=largest", x);
      for (std::size_t first = 0; first < kCount; first += block) {
        const float* const a = x.data() + first;
        const float* const b = y.data() + first;
        // The best scale is 1 but for the rounding to bfloat16, and that of values in steps.
        const double best = product(a, b, block) / product(b, b, block);
        ASSERT_NEAR(best, 1, 0x1p-9 + 0x1p-9) << fitted(bits, block);
        const double norm = product(b, b, block);
        ASSERT_LE(squares_lost(a, b, block),
                  squares_lost(a, largest.data() + first, block) + 0x1p-16 * norm);
      }
    }
  }
}

/// Encoded with a residual again and again, results become as long as the values. Those of the
/// largest magnitude are longer.
TEST(Fit, ErrorFeedbackKeepsTheLength) {
  const auto mean_length = [](const std::string& specification) {
    std::vector<float> residual(kCount);
    double sum = 0;
    double calls = 0;
    for (std::uint32_t step = 0; step < 60; ++step) {
      const auto x = draw_floats(kCount, Values::kNormal, 100 + step);
      const auto y = transmit(specification, x, &residual);
      if (step < 20) continue;
      sum += std::sqrt(product(y.data(), y.data(), kCount) / product(x.data(), x.data(), kCount));
      ++calls;
    }
    return sum / calls;
  };
  const double length = mean_length("q4");
  EXPECT_NEAR(length, 1, 0.01);
  EXPECT_GT(mean_length("q4:scale=largest"), length + 0.01);
}

TEST(Fit, MoreBitsAndOtherGridsAreAsTheyWere) {
  const auto x = draw_floats(kCount, Values::kNormal, 2);
  EXPECT_EQ(transmit("q8", x), transmit("q8:scale=largest", x));
  EXPECT_EQ(transmit("q4:round=stochastic", x), transmit("q4:round=stochastic,scale=largest", x));
  EXPECT_NE(transmit("q6", x), transmit("q6:scale=largest", x));
}

/// The sums of a block are the largest that there are where all values lie at or next to the ends.
TEST(Fit, SumsAreExactWhereverTheyAreMade) {
  std::mt19937 engine(3);
  std::uniform_real_distribution<float> near_end(0.9f, 1.0f);
  std::vector<float> ends(kCount), full(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ends[i] = (engine() % 2 == 0 ? 1.0f : -1.0f) * near_end(engine);
    full[i] = std::numeric_limits<float>::max() * (i % 3 == 0 ? -1.0f : 1.0f);
  }
  for (const auto& x : {ends, full}) {
    for (int bits = 2; bits <= 6; ++bits) {
      for (const std::size_t block : {32u, 64u, 128u, 1024u}) {
        ASSERT_TRUE(force_isa("scalar").is_ok());
        const auto expected = transmit(fitted(bits, block), x);
        for (const std::string& isa : available_isas()) {
          ASSERT_TRUE(force_isa(isa).is_ok());
          ASSERT_EQ(transmit(fitted(bits, block), x), expected) << fitted(bits, block) << isa;
        }
        for (const float y : expected) ASSERT_TRUE(std::isfinite(y));
      }
    }
  }
  ASSERT_TRUE(force_isa("").is_ok());
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::fit_test
