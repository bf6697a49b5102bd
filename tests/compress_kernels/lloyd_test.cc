// qB:grid=lloyd: its levels, its rotation, and the errors that it is there for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/lloyd/block.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::lloyd_test {
namespace {

// The least squared error of a quantiser with 2^bits levels for a Gaussian (Max 1960, table 1, and
// Jayant and Noll 1984 for 6 to 8 bits).
constexpr double kLeastError[8] = {0.3634,  0.1175,  0.03454,  0.009497,
                                   0.00250, 0.00065, 0.000165, 0.0000416};

double gaussian_error(const lloyd::LevelTable& table) {
  double error = 0;
  double weight = 0;
  constexpr double kStep = 1e-4;
  for (double t = kStep / 2; t < 7; t += kStep) {
    const double density = std::exp(-t * t / 2);
    const double level = lloyd::nearest_level(table, static_cast<float>(t)).value;
    error += density * (t - level) * (t - level);
    weight += density;
  }
  return error / weight;
}

TEST(LloydLevels, AreNearlyTheBestForAGaussian) {
  for (int bits = 1; bits <= 8; ++bits) {
    const double error = gaussian_error(lloyd::level_table(bits));
    EXPECT_LT(error, kLeastError[bits - 1] * (bits <= 4 ? 1.002 : 1.08)) << bits;
  }
}

TEST(LloydLevels, RiseAndStandInTheirCells) {
  for (int bits = 1; bits <= 8; ++bits) {
    const lloyd::LevelTable& table = lloyd::level_table(bits);
    const std::uint32_t count = 1u << (bits - 1);
    for (std::uint32_t index = 0; index < count; ++index) {
      const float value = lloyd::level_value(table, index);
      EXPECT_EQ(lloyd::nearest_level(table, value).index, index) << bits;
      EXPECT_EQ(lloyd::nearest_level(table, value).value, value) << bits;
      const float below = index > 0 ? lloyd::level_value(table, index - 1) : 0.0f;
      EXPECT_GT(value, below);
    }
    EXPECT_EQ(lloyd::nearest_level(table, 32.0f).index, count - 1);
    EXPECT_EQ(lloyd::nearest_level(table, 0.0f).index, 0u);
  }
}

/// A value may be taken for one of either cell next to it, when it is at the edge.
TEST(LloydLevels, CellsLeadToTheSameCodesAsComparisons) {
  for (int bits = 1; bits <= lloyd::kMostCellBits; ++bits) {
    const lloyd::CellTable& table = lloyd::kCellTables[bits - 1];
    for (float value = -8; value < 8; value += 0x1p-10f) {
      const lloyd::SignedLevel level = lloyd::nearest_signed_level(bits, value, 1);
      for (const float shift : {-1e-3f, 0.0f, 1e-3f}) {
        const float in_cells = value * lloyd::kCellsPerDeviation;
        const float limited = std::clamp(in_cells, -lloyd::kCellLimit, lloyd::kCellLimit) + shift;
        const auto cell = static_cast<std::int32_t>(std::lrint(limited)) & (2 * lloyd::kCells - 1);
        ASSERT_EQ(table.codes[cell] + (value >= table.starts[cell] ? 1 : 0), level.code)
            << bits << ' ' << value;
      }
      ASSERT_EQ(level.value, lloyd::signed_level_value(bits, level.code));
      ASSERT_EQ(std::signbit(level.value), value < 0);
    }
  }
}

TEST(LloydLevels, CodesRiseWithTheValues) {
  for (int bits = 1; bits <= 8; ++bits) {
    for (std::uint32_t code = 0; code < (1u << bits); ++code) {
      const float value = lloyd::signed_level_value(bits, code);
      EXPECT_EQ(lloyd::nearest_signed_level(bits, value, 1).code, code) << bits;
      EXPECT_EQ(lloyd::nearest_signed_level(bits, value, 1).value, value) << bits;
      if (code > 0) {
        EXPECT_GT(value, lloyd::signed_level_value(bits, code - 1)) << bits;
      }
    }
  }
}

TEST(LloydRotation, TwiceIsTheValuesTimesTheirNumber) {
  for (std::size_t size = 1; size <= 1024; size *= 2) {
    std::vector<float> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
    std::vector<float> twice = values;
    lloyd::hadamard(twice.data(), size);
    lloyd::hadamard(twice.data(), size);
    for (std::size_t i = 0; i < size; ++i) {
      ASSERT_EQ(twice[i], values[i] * static_cast<float>(size));
    }
  }
}

std::vector<float> decoded(const Codec& codec, const std::vector<float>& x, std::uint64_t step) {
  std::vector<std::byte> wire(codec.wire_bytes(x.size()));
  EncodeArgs args;
  args.values = x.data();
  args.count = x.size();
  args.wire = wire.data();
  args.random.step = step;
  codec.encode(args);
  std::vector<float> y(x.size());
  codec.decode({wire.data(), y.size(), y.data()});
  return y;
}

double error_of(const std::string& specification, const std::vector<float>& x) {
  const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  const auto y = decoded(*codec.value(), x, 0);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error += std::pow(double{y[i]} - x[i], 2);
    norm += double{x[i]} * x[i];
  }
  return error / norm;
}

template <typename Law>
std::vector<float> draw(std::size_t count, Law law) {
  std::mt19937_64 engine(3);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(law(engine));
  return values;
}

/// Gaussian values, of which only every so many-th is not zero, or those in the first columns of
/// rows of 16.
std::vector<float> with_zeros(std::size_t count, std::size_t every, std::size_t columns) {
  auto values = draw(count, std::normal_distribution<double>());
  for (std::size_t i = 0; i < count; ++i) {
    if (i % every != 0 || i % 16 >= columns) values[i] = 0;
  }
  return values;
}

TEST(Lloyd, ErrorIsThatOfAGaussianWhateverTheLaw) {
  const std::size_t count = 64 * 1024;
  const std::vector<std::vector<float>> inputs = {
      draw(count, std::normal_distribution<double>()),
      draw(count, std::exponential_distribution<double>()),
      draw(count, std::student_t_distribution<double>(3)),
      draw(count, std::bernoulli_distribution(0.05)),
      with_zeros(count, 2, 16),
      with_zeros(count, 4, 16),
      with_zeros(count, 1, 3),
      with_zeros(count, 1024, 16),
  };
  // The sum of 1024 values of which few differ from zero is not quite a Gaussian.
  const double factors[] = {1.01, 1.06, 1.06, 1.06, 1.06, 1.06, 1.06, 1.06};
  for (int bits = 1; bits <= 8; ++bits) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double error = error_of("q" + std::to_string(bits) + ":grid=lloyd", inputs[i]);
      EXPECT_LT(error, kLeastError[bits - 1] * factors[i] * (bits < 5 ? 1 : 1.15)) << bits << i;
    }
  }
}

TEST(Lloyd, ZerosHaveNoSign) {
  for (const std::string specification : {"q4:grid=lloyd", "q2:grid=lloyd,round=stochastic"}) {
    const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
    for (const float value : decoded(*codec.value(), std::vector<float>(3000, 0.0f), 1)) {
      ASSERT_FALSE(std::signbit(value)) << specification;
    }
  }
}

/// Sums that are too large for their type become infinite, as without compression: loss scalers
/// look for that. The values of one rank stay finite.
TEST(Lloyd, SumsOverflowAsTheyDoWithoutCompression) {
  const std::size_t count = 4096;
  auto x = draw(count, std::normal_distribution<double>());
  x[100] = 65504;
  const auto codec = make_codec("q4:grid=lloyd", DType::kFloat16, ReduceOp::kSum).value();
  const auto elements = testing::to_elements(x, DType::kFloat16);
  const Contributions own{1, 2};
  const Contributions sum{2, 2};
  std::vector<std::byte> wire(codec->wire_bytes(count, own));
  EncodeArgs args;
  args.values = elements.data();
  args.count = count;
  args.wire = wire.data();
  args.form = own;
  codec->encode(args);
  std::vector<std::byte> values(elements.size());
  DecodeArgs decoding;
  decoding.wire = wire.data();
  decoding.count = count;
  decoding.values = values.data();
  decoding.form = own;
  codec->decode(decoding);
  for (const float value : testing::to_floats(values.data(), count, DType::kFloat16)) {
    ASSERT_TRUE(std::isfinite(value));
  }
  const std::byte* const parts[] = {wire.data()};
  DecodeAddEncodeArgs hop;
  hop.wires = parts;
  hop.own_position = 1;
  hop.values = elements.data();
  hop.count = count;
  std::vector<std::byte> total(codec->wire_bytes(count, sum));
  hop.wire = total.data();
  hop.form = sum;
  codec->decode_add_encode(hop);
  decoding.wire = total.data();
  decoding.form = sum;
  codec->decode(decoding);
  EXPECT_TRUE(std::isinf(testing::to_floats(values.data(), count, DType::kFloat16)[100]));
}

/// What the grid is for: figures of codecs.md, here for one draw.
TEST(Lloyd, BeatsMaxMinAtFourBits) {
  const auto gaussian = draw(1 << 18, std::normal_distribution<double>());
  const auto student = draw(1 << 18, std::student_t_distribution<double>(3));
  EXPECT_LT(error_of("q4:grid=lloyd", gaussian),
            0.70 * error_of("q4:grid=minmax,block=512", gaussian));
  EXPECT_LT(error_of("q4:grid=lloyd", student),
            0.15 * error_of("q4:grid=minmax,block=512", student));
}

/// It is spread over 256 values of one magnitude; in larger blocks the others stay zero.
TEST(Lloyd, ASingleValueInABlock) {
  std::vector<float> x(2048);
  x[5] = 3.7f;
  x[2000] = -1e-3f;
  for (const char* bits : {"q1", "q4", "q8"}) {
    EXPECT_LT(error_of(std::string(bits) + ":grid=lloyd,block=256", x), 0x1p-16) << bits;
  }
  EXPECT_LT(error_of("q4:grid=lloyd", x), 0.03);
  EXPECT_LT(error_of("q8:grid=lloyd", x), 0.001);
}

TEST(Lloyd, LargestAndSmallestMagnitudesSurvive) {
  for (const float magnitude : {3.4e38f, 1e30f, 1e-20f, 1e-29f}) {
    std::vector<float> x = draw(1500, std::normal_distribution<double>(0, 0.25));
    for (float& value : x) value = std::max(-1.0f, std::min(1.0f, value)) * magnitude;
    x[7] = magnitude;
    const auto codec = make_codec("q4:grid=lloyd", DType::kFloat32, ReduceOp::kSum);
    for (const float y : decoded(*codec.value(), x, 0)) ASSERT_TRUE(std::isfinite(y));
    EXPECT_LT(error_of("q4:grid=lloyd", x), 0.0115) << magnitude;
  }
}

/// Each coordinate's mean over 2000 rotations is its value, within 4 standard errors; with so many
/// coordinates a few are allowed to be up to 5 away.
TEST(Lloyd, StochasticRoundingIsUnbiased) {
  constexpr int kRepetitions = 2000;
  for (const std::size_t count : {std::size_t{1024}, std::size_t{128}, std::size_t{100}}) {
    for (const char* specification :
         {"q4:grid=lloyd,round=stochastic", "q2:grid=lloyd,round=stochastic",
          "q1:grid=lloyd,round=stochastic", "q4:block=256,grid=lloyd,round=stochastic"}) {
      const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
      const auto x = draw(count, std::student_t_distribution<double>(4));
      std::vector<double> sum(count);
      std::vector<double> squares(count);
      for (int repetition = 0; repetition < kRepetitions; ++repetition) {
        const auto y = decoded(*codec.value(), x, static_cast<std::uint64_t>(repetition));
        for (std::size_t i = 0; i < count; ++i) {
          const double error = double{y[i]} - x[i];
          sum[i] += error;
          squares[i] += error * error;
        }
      }
      std::size_t beyond_four = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const double mean = sum[i] / kRepetitions;
        const double deviation =
            std::sqrt((squares[i] / kRepetitions - mean * mean) / kRepetitions);
        if (std::abs(mean) > 4 * deviation) ++beyond_four;
        EXPECT_LT(std::abs(mean), 5 * deviation) << specification << ' ' << count << ' ' << i;
      }
      EXPECT_LE(beyond_four, 1u + count / 1000) << specification << ' ' << count;
    }
  }
}

/// With error feedback over `steps` calls with the same values: the squared errors of the mean of
/// all results and of what is kept at the end, over the squared norm of the values.
struct Feedback {
  double mean_error = 0;
  double kept = 0;
};

Feedback feedback_of(const std::string& specification, const std::vector<float>& x,
                     std::uint64_t steps) {
  const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum);
  std::vector<std::byte> wire(codec.value()->wire_bytes(x.size()));
  std::vector<float> residual(x.size());
  std::vector<float> y(x.size());
  std::vector<double> sum(x.size());
  for (std::uint64_t step = 0; step < steps; ++step) {
    EncodeArgs args;
    args.values = x.data();
    args.count = x.size();
    args.wire = wire.data();
    args.residual = residual.data();
    args.decoded = y.data();
    args.random.step = step;
    codec.value()->encode(args);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] += y[i];
  }
  Feedback feedback;
  double norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    feedback.mean_error += std::pow(sum[i] / static_cast<double>(steps) - x[i], 2);
    feedback.kept += std::pow(double{residual[i]}, 2);
    norm += std::pow(double{x[i]}, 2);
  }
  return {feedback.mean_error / norm, feedback.kept / norm};
}

/// What one call loses is at most a share e of what it is given, in length: after many calls
/// e / (1 - e) is kept. That needs a rotation that knows nothing of the residual.
TEST(Lloyd, ErrorFeedbackKeepsLittleHoweverManyCallsAreAlike) {
  const std::vector<std::vector<float>> inputs = {
      draw(8192, std::normal_distribution<double>()),
      draw(8192, std::student_t_distribution<double>(3)),
      draw(8192, std::bernoulli_distribution(0.05)),
  };
  for (int bits = 1; bits <= 8; ++bits) {
    // Of so many bits, one value beyond the outermost level, one in 10^5, is a part of the error.
    const double share = std::sqrt(kLeastError[bits - 1] * (bits < 7 ? 1.25 : 2));
    const double most = std::pow(share / (1 - share), 2);
    for (const auto& x : inputs) {
      const Feedback feedback = feedback_of("q" + std::to_string(bits) + ":grid=lloyd", x, 50);
      EXPECT_LT(feedback.kept, most) << bits;
      EXPECT_LT(feedback.mean_error, most / 2500 * 1.01) << bits;
    }
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::lloyd_test
