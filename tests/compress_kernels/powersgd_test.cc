// What is special to powersgd: shapes, the orthonormal columns, exactness of its own form.
#include "compress_kernels/powersgd/powersgd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compress_kernels/factory.h"
#include "compress_kernels/powersgd/factors.h"
#include "compress_kernels/powersgd/parts.h"
#include "tests/compress_kernels/codec_data.h"

namespace ringpress::compress_kernels::powersgd::powersgd_test {
namespace {

using testing::draw_floats;
using testing::Values;

TEST(PowerSgd, ShapesAreTheSquarestThatThereAre) {
  EXPECT_EQ(squarest(0), (MatrixShape{0, 0}));
  EXPECT_EQ(squarest(1), (MatrixShape{1, 1}));
  EXPECT_EQ(squarest(2), (MatrixShape{1, 2}));
  EXPECT_EQ(squarest(1000000), (MatrixShape{1000, 1000}));
  EXPECT_EQ(squarest(768 * 3072), (MatrixShape{1536, 1536}));
  EXPECT_EQ(squarest(768 * 1000), (MatrixShape{800, 960}));
  EXPECT_EQ(squarest(1009), (MatrixShape{32, 32}));  // Prime: 15 zeros.
  EXPECT_EQ(squarest(1000003), (MatrixShape{1000, 1001}));
  for (std::size_t count = 1; count < 3000; ++count) {
    const MatrixShape shape = squarest(count);
    ASSERT_GE(shape.rows * shape.columns, count);
    ASSERT_LT((shape.rows - 1) * shape.columns, count) << count;  // No empty row.
  }
}

TEST(PowerSgd, ProjectsOnlyWhatGetsSmaller) {
  EXPECT_TRUE(is_worth_projecting(4, {32, 32}, 1024));
  EXPECT_FALSE(is_worth_projecting(16, {32, 32}, 1024));  // Equal.
  EXPECT_FALSE(is_worth_projecting(1, {1, 1000}, 1000));
  EXPECT_FALSE(is_worth_projecting(1, {0, 0}, 1000));
  EXPECT_TRUE(is_worth_projecting(1, {3, 10}, 30));
  EXPECT_FALSE(is_worth_projecting(64, {128, 128}, 128 * 128));
  EXPECT_TRUE(is_worth_projecting(63, {128, 128}, 128 * 128));
}

TEST(PowerSgd, PartsCoverTheTensor) {
  const std::vector<Layer> layers{
      {10, 400, 20, 20, false}, {410, 400, 20, 20, true}, {900, 50, 0, 0, false}};
  std::vector<Part> parts;
  const Part end =
      for_each_part({1000, layers}, 2, [&](const Part& part) { parts.push_back(part); });
  ASSERT_EQ(parts.size(), 6U);
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].offset, next);
    next += parts[i].count;
    EXPECT_EQ(parts[i].is_matrix(), i == 1);
  }
  EXPECT_EQ(next, 1000U);
  EXPECT_EQ(end.first_round, 600U + 2 * 20);
  EXPECT_EQ(end.second_round, 2U * 20);
}

double dot(const float* a, const float* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += double{a[i]} * b[i];
  return sum;
}

TEST(PowerSgd, ColumnsBecomeOrthonormalHoweverAlikeTheyAre) {
  const std::size_t rows = 500;
  const std::size_t rank = 6;
  std::vector<float> p = draw_floats(rows * rank, Values::kNormal, 3);
  for (std::size_t i = 0; i < rows; ++i) {
    p[rows + i] = p[i] + 1e-4f * p[rows + i];  // Nearly the first.
    p[2 * rows + i] = p[i] * 3;                // The first.
    p[3 * rows + i] *= 1e-30f;                 // Tiny.
    p[4 * rows + i] *= 1e30f;                  // Huge.
  }
  orthonormalise(rows, rank, p.data());
  for (std::size_t k = 0; k < rank; ++k) {
    const double norm = k == 2 ? 0 : 1;
    EXPECT_NEAR(dot(&p[k * rows], &p[k * rows], rows), norm, 1e-6) << k;
    for (std::size_t m = 0; m < k; ++m) {
      EXPECT_NEAR(dot(&p[k * rows], &p[m * rows], rows), 0, 1e-6) << k << ' ' << m;
    }
  }
}

TEST(PowerSgd, AChunkOfLowRankIsExact) {
  const std::size_t rows = 96;
  const std::size_t columns = 100;
  ASSERT_EQ(squarest(rows * columns), (MatrixShape{rows, columns}));
  const auto left = draw_floats(rows * 4, Values::kNormal, 1);
  const auto right = draw_floats(columns * 4, Values::kNormal, 2);
  for (const float scale : {1.0f, 1e-20f, 1e20f}) {
    std::vector<float> values(rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (std::size_t k = 0; k < 4; ++k) {
        values[i] += left[i / columns * 4 + k] * right[i % columns * 4 + k];
      }
      values[i] *= scale;
    }
    const auto codec = make_codec("powersgd:rank=4", DType::kFloat32, ReduceOp::kSum);
    std::vector<std::byte> wire(codec.value()->wire_bytes(values.size()));
    EXPECT_EQ(wire.size(), 4 * (rows + columns) * sizeof(float));
    std::vector<float> decoded(values.size());
    EncodeArgs args;
    args.values = values.data();
    args.count = values.size();
    args.wire = wire.data();
    args.decoded = decoded.data();
    codec.value()->encode(args);
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double{decoded[i]} - values[i], 2);
      norm += std::pow(double{values[i]}, 2);
    }
    EXPECT_LT(std::sqrt(error / norm), 1e-5) << scale;
  }
}

TEST(PowerSgd, NamesWhatARankMayBe) {
  for (const char* text : {"powersgd:rank=-1", "powersgd:rank=0", "powersgd:rank=65",
                           "powersgd:rank=04", "powersgd:rank=4x", "powersgd:rank="}) {
    const std::string message = normalize_specification(text).status().message();
    EXPECT_NE(message.find("rank"), std::string::npos) << text;
    EXPECT_NE(message.find("from 1 to 64"), std::string::npos) << message;
  }
  EXPECT_EQ(normalize_specification("powersgd").value(), "powersgd:rank=4");
}

}  // namespace
}  // namespace ringpress::compress_kernels::powersgd::powersgd_test
