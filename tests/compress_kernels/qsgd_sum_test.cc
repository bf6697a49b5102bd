// qsgd and qsgd-ms: what averages of several ranks come to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/qsgd/grid.h"
#include "tests/compress_kernels/qsgd_ring.h"

namespace ringpress::compress_kernels::testing::qsgd_sum_test {
namespace {

/// A codec with the norm of all values of all ranks, and its grids.
struct Unbiased {
  const char* specification;
  std::vector<double> steps;
};

float norm_of(const Tensors& inputs) {
  float largest = 0;
  for (const auto& input : inputs) {
    for (const float x : input) largest = std::max(largest, std::abs(x));
  }
  const std::uint16_t norm = qsgd::norm_of_magnitude(core::bits_of(largest));
  return core::widen(core::Bfloat16{norm});
}

/// Of the average: each rank's code is one of two neighbours. `step` gets the distance of them.
double variance_of(const Unbiased& codec, const Tensors& inputs, std::size_t i, double* step) {
  const double norm = norm_of(inputs);
  double steps = codec.steps[0];
  for (const double finer : codec.steps) {
    const auto fits = [&](const auto& x) {
      return std::abs(x[i]) / norm * finer <= codec.steps[0];
    };
    if (std::all_of(inputs.begin(), inputs.end(), fits)) steps = finer;
  }
  *step = norm / steps / static_cast<double>(inputs.size());
  double variance = 0;
  for (const auto& input : inputs) {
    const double position = std::abs(input[i]) / norm * steps;
    const double fraction = position - std::floor(position);
    variance += fraction * (1 - fraction) * *step * *step;
  }
  return variance;
}

/// The mean over many calls comes within four standard errors of each value (and one move of one
/// code: those that seldom move are not Gaussian), and the squared error of the average of n ranks
/// within M^2 / (4 s^2 n).
TEST(Qsgd, IsUnbiasedWithinItsVariance) {
  constexpr double kCalls = 2000;
  constexpr std::size_t kRanks = 4;
  const Tensors inputs = draw(kRanks, 512, [](float x, std::size_t i) {
    return i % 5 == 0 ? x * 1e-3f : i % 7 == 0 ? std::round(x) / 4 : x;
  });
  const std::vector<double> exact = mean_of(inputs);
  for (const Unbiased& codec :
       {Unbiased{"qsgd", {15}}, Unbiased{"qsgd:bits=1", {1}},
        Unbiased{"qsgd:bits=8,norm=global", {255}}, Unbiased{"qsgd-ms:bits=4/8", {15, 255}}}) {
    const Ring ring(codec.specification, inputs);
    std::vector<double> sums(exact.size());
    double squares = 0;
    for (std::uint64_t call = 0; call < static_cast<std::uint64_t>(kCalls); ++call) {
      const std::vector<float> result = ring.average(call);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        sums[i] += result[i] - exact[i];
        squares += std::pow(result[i] - exact[i], 2);
      }
    }
    for (std::size_t i = 0; i < exact.size(); ++i) {
      double step = 0;
      const double variance = variance_of(codec, inputs, i, &step);
      EXPECT_LE(std::abs(sums[i]) / kCalls, 4 * std::sqrt(variance / kCalls) + step / kCalls)
          << codec.specification << ' ' << i;
    }
    const double bound = std::pow(norm_of(inputs) / codec.steps[0], 2) / (4 * kRanks);
    EXPECT_LE(squares / kCalls / static_cast<double>(exact.size()), 1.01 * bound);
  }
}

/// The bound is not loose: values in the middle between two codes reach it.
TEST(Qsgd, VarianceIsReachedBetweenTwoCodes) {
  Tensors inputs(3, std::vector<float>(2048, 0.5f));
  for (auto& input : inputs) input[0] = input[512] = input[1024] = input[1536] = 1.0f;
  const Ring ring("qsgd:bits=1", inputs);
  double squares = 0;
  for (std::uint64_t call = 0; call < 200; ++call) {
    const std::vector<float> result = ring.average(call);
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (i % 512 != 0) squares += std::pow(result[i] - 0.5, 2);
    }
  }
  const double bound = 1.0 / (4 * 3);
  EXPECT_NEAR(squares / (200 * 2044) / bound, 1, 0.01);
}

TEST(Qsgd, AThousandRanksAtTheMaximumDoNotWrap) {
  for (const char* specification : {"qsgd:bits=8", "qsgd:bits=5,norm=global,round=zero"}) {
    for (const float value : {1.5f, -1.5f}) {
      const Tensors inputs(1000, std::vector<float>(1100, value));
      for (const float y : Ring(specification, inputs).average(0)) {
        ASSERT_NEAR(y, value, 1e-5) << specification;
      }
    }
  }
}

TEST(Qsgd, TruncationNeverGrowsAValue) {
  const Tensors inputs = draw(1, 3000, [](float x, std::size_t) { return x; });
  const auto codec = make_float_codec("qsgd:bits=3,round=zero");
  Bytes wire(codec->wire_bytes(3000));
  std::vector<float> decoded(3000);
  EncodeArgs args;
  args.values = inputs[0].data();
  args.count = 3000;
  args.wire = wire.data();
  args.decoded = decoded.data();
  codec->encode(args);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    EXPECT_LE(std::abs(decoded[i]), std::abs(inputs[0][i]) * (1 + 1e-6f));
    EXPECT_GE(decoded[i] * inputs[0][i], 0);
  }
}

double squared_error(const std::string& specification, const Tensors& inputs) {
  const std::vector<double> exact = mean_of(inputs);
  const std::vector<float> result = Ring(specification, inputs).average(1);
  double error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) error += std::pow(result[i] - exact[i], 2);
  return error;
}

/// Gaussian values, rows of very different sizes, heavy tails.
TEST(QsgdLevels, AreNoWorseThanOneGridAndMuchBetterWhereSizesDiffer) {
  constexpr std::size_t kCount = 1 << 20;
  constexpr std::size_t kRow = 256;
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kCount / kRow);
  for (float& row : rows) row = std::exp(normal(engine));
  const std::function<float(float, std::size_t)> laws[] = {
      [](float x, std::size_t) { return x; },
      [&](float x, std::size_t i) { return x * rows[i / kRow]; },
      [](float x, std::size_t) { return x * x * x; }};
  for (std::size_t law = 0; law < 3; ++law) {
    const Tensors inputs = draw(2, kCount, laws[law]);
    for (const char* norm : {"global", "bucket"}) {
      const std::string suffix = std::string(",norm=") + norm;
      const double one = squared_error("qsgd:bits=4" + suffix, inputs);
      const double two = squared_error("qsgd-ms:bits=4/8" + suffix, inputs);
      EXPECT_LE(two, one) << norm << law;
      if (law == 1 && norm == std::string("global")) {
        EXPECT_LE(9 * two, one);
      }
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::testing::qsgd_sum_test
