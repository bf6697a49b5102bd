// Tables of errors are what codecs lose, and what brute force finds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "compress_kernels/core/narrow_floats.h"
#include "compress_kernels/factory.h"
#include "tests/support/narrow_values.h"

namespace ringpress::compress_kernels::errors_test {
namespace {

const std::vector<int> kAllBits = {2, 3, 4, 5, 6, 7, 8};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Values whose size changes over the tensor, some blocks of which are zero.
std::vector<float> make_values(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float size = std::exp2(static_cast<float>(i / 500 % 7) - 10);
    values[i] = i / 300 % 5 == 0 ? 0.0f : size * normal(generator);
  }
  return values;
}

MeasuredTensor tensor_of(const std::vector<float>& values, const float* residual = nullptr) {
  return {values.data(), residual, values.size(), DType::kFloat32};
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// What a codec really loses.
double lost_by(const std::string& specification, const std::vector<float>& values) {
  const auto codec = make_codec(specification, DType::kFloat32, ReduceOp::kSum).value();
  std::vector<std::byte> wire(codec->wire_bytes(values.size(), {1, 2}));
  std::vector<float> decoded(values.size());
  EncodeArgs encode;
  encode.values = values.data();
  encode.count = values.size();
  encode.wire = wire.data();
  encode.decoded = decoded.data();
  encode.form = {1, 2};
  codec->encode(encode);
  std::vector<float> lost(values.size());
  for (std::size_t i = 0; i < lost.size(); ++i) lost[i] = values[i] - decoded[i];
  return norm(lost);
}

TEST(Norm, IsThatOfValuesAndResiduals) {
  const std::vector<float> values = make_values(3001, 1), residual = make_values(3001, 2);
  std::vector<float> sums(values.size());
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] = values[i] + residual[i];
  EXPECT_NEAR(measure_norm(tensor_of(values)), norm(values), 1e-9 * norm(values));
  EXPECT_NEAR(measure_norm(tensor_of(values, residual.data())), norm(sums), 1e-9 * norm(sums));
  EXPECT_EQ(measure_norm(tensor_of({})), 0);
  EXPECT_TRUE(std::isinf(measure_norm(tensor_of({1, kNan}))));
  EXPECT_NEAR(measure_norm(tensor_of({3e30f, 4e30f})), 5e30, 1e24);
}

TEST(Lengths, AreOfValuesAndOfTheirTotalWithASum) {
  const std::vector<float> values = make_values(3001, 1), sum = make_values(3001, 2);
  std::vector<float> totals(values.size());
  for (std::size_t i = 0; i < totals.size(); ++i) totals[i] = values[i] + sum[i];
  const LengthPart found =
      measure_lengths(values.data(), sum.data(), values.size(), DType::kFloat32);
  EXPECT_EQ(std::sqrt(found.value_squares), measure_norm(tensor_of(values)));
  EXPECT_EQ(std::sqrt(found.total_squares), measure_norm(tensor_of(totals)));
  EXPECT_EQ(measure_lengths(values.data(), nullptr, 3001, DType::kFloat32).total_squares, 0);
  const std::vector<float> bad = {1, kNan}, large = {3e30f, -4e30f}, small = {3e-30f, 4e-30f};
  EXPECT_FALSE(std::isfinite(
      measure_lengths(bad.data(), nullptr, bad.size(), DType::kFloat32).value_squares));
  EXPECT_NEAR(measure_lengths(large.data(), small.data(), 2, DType::kFloat32).total_squares, 25e60,
              1e54);
  EXPECT_NEAR(measure_lengths(small.data(), nullptr, 2, DType::kFloat32).value_squares, 25e-60,
              1e-66);
}

TEST(Total, IsOfAnyPlaceAndRoundedOnce) {
  std::vector<float> values = make_values(1025, 1);
  const std::vector<float> sum = make_values(1025, 2), kept = values;
  write_total(values.data(), sum.data(), values.size(), DType::kFloat32, values.data());
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], sum[i] + kept[i]);
}

TEST(BitErrors, AreWhatTheCodecLoses) {
  for (const std::size_t block : {32, 128, 1024}) {
    for (const float scale : {1.0f, 1e-25f, 1e30f}) {
      std::vector<float> values = make_values(30011, 1);
      for (float& value : values) value *= scale;
      const auto errors = measure_bit_errors(tensor_of(values), block, kAllBits).value();
      for (std::size_t i = 0; i < kAllBits.size(); ++i) {
        const std::string specification =
            "q" + std::to_string(kAllBits[i]) + ":block=" + std::to_string(block);
        const double expected = lost_by(specification, values);
        EXPECT_NEAR(errors[i], expected, 1e-5 * expected) << specification << " at " << scale;
      }
    }
  }
}

TEST(BitErrors, AreOfTheValuesWithTheirResidualsInTheirType) {
  const std::vector<float> values = make_values(5000, 2);
  const std::vector<float> residual = make_values(5000, 3);
  std::vector<core::Bfloat16> narrow;
  std::vector<float> sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    narrow.push_back(core::narrow<core::Bfloat16>(values[i]));
    sums.push_back(core::widen(narrow.back()) + residual[i]);
  }
  const MeasuredTensor tensor{narrow.data(), residual.data(), narrow.size(), DType::kBfloat16};
  EXPECT_EQ(measure_bit_errors(tensor, 128, kAllBits).value(),
            measure_bit_errors(tensor_of(sums), 128, kAllBits).value());
}

TEST(Errors, OfWhatIsNotFiniteAreInfinite) {
  for (const float value : {kNan, std::numeric_limits<float>::infinity()}) {
    std::vector<float> values = make_values(4096, 4);
    values[4000] = value;
    const double infinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(measure_bit_errors(tensor_of(values), 128, kAllBits).value(),
              std::vector<double>(kAllBits.size(), infinity));
    EXPECT_EQ(measure_density_errors(tensor_of(values), std::vector<double>{0.01}).value(),
              std::vector<double>{infinity});
    EXPECT_EQ(measure_rank_errors(tensor_of(values), {64, 64}, std::vector<std::size_t>{4}).value(),
              std::vector<double>{infinity});
  }
}

TEST(DensityErrors, AreThoseOfSortedValues) {
  const std::vector<double> densities = {0.001, 0.003, 0.01, 0.03, 0.1, 0.9, 1};
  for (const std::size_t count : {1000, 100003}) {
    std::vector<float> values = make_values(count, 5);
    const auto errors = measure_density_errors(tensor_of(values), densities).value();
    const double whole = norm(values);
    std::sort(values.begin(), values.end(),
              [](float a, float b) { return std::abs(a) > std::abs(b); });
    for (std::size_t i = 0; i < densities.size(); ++i) {
      const auto kept =
          static_cast<std::ptrdiff_t>(std::ceil(densities[i] * static_cast<double>(count) - 1e-9));
      const double expected = norm({values.begin() + kept, values.end()});
      EXPECT_NEAR(errors[i], expected, 1e-3 * expected + 1e-9 * whole) << densities[i];
    }
  }
}

/// A matrix with known singular values: columns and rows of cosines are orthogonal.
TEST(RankErrors, AreThoseOfTheSingularValues) {
  constexpr std::size_t kRows = 96;
  constexpr std::size_t kColumns = 160;
  constexpr std::size_t kTerms = 60;
  const auto cosine = [](std::size_t k, std::size_t i, std::size_t size) {
    const double angle =
        M_PI * static_cast<double>((2 * i + 1) * k) / static_cast<double>(2 * size);
    return std::cos(angle) * std::sqrt((k == 0 ? 1.0 : 2.0) / static_cast<double>(size));
  };
  std::vector<double> singular;
  for (std::size_t k = 0; k < kTerms; ++k) singular.push_back(10 * std::pow(0.85, k));
  std::vector<float> values(kRows * kColumns);
  for (std::size_t i = 0; i < kRows; ++i) {
    for (std::size_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < kTerms; ++k) {
        sum += singular[k] * cosine(k, i, kRows) * cosine(k, j, kColumns);
      }
      values[i * kColumns + j] = static_cast<float>(sum);
    }
  }
  const std::vector<std::size_t> ranks = {1, 2, 4, 8, 16, 32};
  const auto errors = measure_rank_errors(tensor_of(values), {kRows, kColumns}, ranks).value();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    double squares = 0;
    for (std::size_t k = ranks[i]; k < kTerms; ++k) squares += singular[k] * singular[k];
    EXPECT_NEAR(errors[i], std::sqrt(squares), 1e-3 * std::sqrt(squares)) << ranks[i];
  }
}

TEST(RankErrors, OfAFullRankAreNone) {
  const std::vector<float> values = make_values(8 * 40, 6);
  const auto errors =
      measure_rank_errors(tensor_of(values), {8, 40}, std::vector<std::size_t>{8, 64}).value();
  for (const double error : errors) EXPECT_LE(error, 1e-3 * norm(values));
}

TEST(Errors, SayWhatIsNotAllowed) {
  const std::vector<float> values(64);
  const auto refusal = [](const auto& result) { return result.status().message(); };
  EXPECT_EQ(refusal(measure_bit_errors(tensor_of(values), 100, kAllBits)),
            "a block of 100 values; allowed: powers of two up to 1024");
  EXPECT_EQ(refusal(measure_bit_errors(tensor_of(values), 128, std::vector<int>{4, 9})),
            "9 bits; allowed: 2 to 8");
  EXPECT_EQ(refusal(measure_density_errors(tensor_of(values), std::vector<double>{0.0})),
            "a density of 0.000000; allowed: above 0, at most 1");
  EXPECT_EQ(refusal(measure_rank_errors(tensor_of(values), {7, 9}, std::vector<std::size_t>{1})),
            "64 values are no matrix of 7 x 9");
  EXPECT_EQ(refusal(measure_rank_errors(tensor_of(values), {8, 8}, std::vector<std::size_t>{65})),
            "a rank of 65; allowed: 1 to 64");
}

TEST(Errors, OfNothingAreNone) {
  const std::vector<float> values;
  EXPECT_EQ(measure_bit_errors(tensor_of(values), 128, kAllBits).value(),
            std::vector<double>(kAllBits.size(), 0.0));
  EXPECT_EQ(measure_density_errors(tensor_of(values), std::vector<double>{0.5}).value(),
            std::vector<double>{0.0});
}

TEST(Finite, EachPlaceIsLookedAtOrEachStep) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    std::vector<float> values(3001, 3.5F);
    std::vector<std::byte> narrow(values.size() * dtype_size(dtype) + 1);
    void* const unaligned = narrow.data() + 1;
    const auto is_found = [&](std::size_t step) {
      narrow_values(values.data(), values.size(), dtype, unaligned);
      return !are_finite(unaligned, values.size(), dtype, step);
    };
    EXPECT_FALSE(is_found(1));
    for (const float bad : {infinity, -infinity, not_a_number}) {
      for (const std::size_t place : {0, 1, 1023, 1024, 2048, 3000}) {
        values[place] = bad;
        EXPECT_TRUE(is_found(1)) << place;
        EXPECT_EQ(is_found(128), place % 128 == 0) << place;
        values[place] = -3.5F;
      }
    }
    EXPECT_TRUE(are_finite(unaligned, 0, dtype));
  }
}

}  // namespace
}  // namespace ringpress::compress_kernels::errors_test
