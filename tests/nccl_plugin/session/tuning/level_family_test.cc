// What levels there are and what they lose, and how tensors are cut into parts.
#include "nccl_plugin/session/tuning/level_family.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/tuning/tensor_cut.h"
#include "ringpress/internal/codec.h"
#include "tests/support/random_tensor.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

std::string default_of(const std::string& codec, const char* name = "RINGPRESS_CODEC") {
  const auto family = make_level_family(parse_settings({{name, codec}}, nullptr));
  return family == nullptr ? "" : family->specification(family->default_level());
}

TEST(LevelFamily, IsThatOfTheCodecForAll) {
  EXPECT_EQ(default_of("q6", "RINGPRESS_BUDGET"), "q6:block=128,grid=uniform,round=nearest");
  EXPECT_EQ(default_of("q4"), "q4:block=128,grid=uniform,round=nearest");
  EXPECT_EQ(default_of("q5:block=64"), "q5:block=64,grid=uniform,round=nearest");
  EXPECT_TRUE(default_of("q3:grid=lloyd").starts_with("q3:block=1024,grid=lloyd"));
  EXPECT_TRUE(default_of("topk:density=0.02").starts_with("topk:density=0.02,"));
  EXPECT_TRUE(default_of("powersgd:rank=4").starts_with("powersgd:rank=4"));
  for (const char* const other :
       {"q1", "q4:round=stochastic", "q4:grid=minmax", "bf16", "none", "randk"}) {
    EXPECT_EQ(default_of(other), "") << other;
  }
}

// Every level is a codec, and loses what its table says.
TEST(LevelFamily, SaysWhatItsCodecsLose) {
  for (const char* const codec_for_all : {"q4", "q5:grid=lloyd", "topk:density=0.1"}) {
    const auto family = make_level_family(parse_settings(
        {{"RINGPRESS_CODEC", codec_for_all}, {"RINGPRESS_ADJUST_GRIDS", "both"}}, nullptr));
    ASSERT_NE(family, nullptr);
    EXPECT_LT(family->default_level(), family->careful_level());
    const std::vector<float> values = testing::random_gradient(50000, 3, 0);
    const MeasuredTensor tensor{values.data(), nullptr, values.size(), DType::kFloat32};
    const std::vector<LevelLoss> costs = family->measure(tensor, {});
    ASSERT_EQ(costs.size(), family->levels());
    for (std::size_t level = 0; level < family->levels(); ++level) {
      const auto codec = compress_kernels::make_codec(family->specification(level), DType::kFloat32,
                                                      ReduceOp::kSum);
      ASSERT_TRUE(codec.is_ok()) << codec.status().message();
      std::vector<std::byte> wire(codec.value()->wire_bytes(values.size()));
      std::vector<float> decoded(values.size());
      std::vector<float> residual(values.size());
      EncodeArgs args;
      args.values = values.data();
      args.count = values.size();
      args.wire = wire.data();
      args.residual = residual.data();
      args.decoded = decoded.data();
      const auto bytes = static_cast<double>(codec.value()->encode(args));
      double squares = 0;
      for (const float lost : residual) squares += double{lost} * lost;
      EXPECT_NEAR(costs[level].of_call(), std::sqrt(squares), 0.06 * std::sqrt(squares))
          << family->specification(level);
      EXPECT_NEAR(costs[level].bytes, bytes, 0.25 * bytes) << family->specification(level);
    }
  }
}

/// The first `rank` of many columns and rows that are all different.
std::vector<float> matrix_of_rank(std::size_t rows, std::size_t columns, int rank) {
  std::vector<float> values(rows * columns);
  for (int part = 0; part < rank; ++part) {
    const std::vector<float> left = testing::random_gradient(rows, 5, part);
    const std::vector<float> right = testing::random_gradient(columns, 6, part);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += left[i / columns] * right[i % columns];
    }
  }
  return values;
}

// From 2 to 8 for 4: nothing is lost from a matrix's own rank on, and layers add up.
TEST(LevelFamily, RanksFollowTheSpectraOfLayers) {
  const auto family =
      make_level_family(parse_settings({{"RINGPRESS_CODEC", "powersgd:rank=4"}}, nullptr));
  ASSERT_NE(family, nullptr);
  ASSERT_EQ(family->levels(), 7u);
  EXPECT_FALSE(family->has_parts());
  std::vector<float> values(100, 1);  // A vector, which is sent as it is.
  for (const int rank : {3, 6}) {
    const std::vector<float> matrix = matrix_of_rank(80, 120, rank);
    values.insert(values.end(), matrix.begin(), matrix.end());
  }
  const std::vector<Layer> layers{{100, 9600, 80, 120}, {9700, 9600, 80, 120}};
  const MeasuredTensor tensor{values.data(), nullptr, values.size(), DType::kFloat32};
  const std::vector<LevelLoss> costs = family->measure(tensor, layers);
  double norm = 0;
  for (const float value : values) norm += double{value} * value;
  norm = std::sqrt(norm);
  for (std::size_t level = 0; level < costs.size(); ++level) {
    const std::size_t rank = level + 2;
    EXPECT_EQ(costs[level].bytes, static_cast<double>((100 + 2 * rank * 200) * sizeof(float)));
    EXPECT_EQ(costs[level].of_call() > 1e-3 * norm, rank < 6) << rank;
    if (level > 0) {
      EXPECT_LE(costs[level].of_call(), costs[level - 1].of_call());
    }
  }
  // Without layers one matrix, as square as can be; it need not be full.
  const std::vector<float> plain = matrix_of_rank(100, 101, 3);
  const std::vector<LevelLoss> whole =
      family->measure({plain.data(), nullptr, plain.size() - 1, DType::kFloat32}, {});
  EXPECT_GT(whole[0].of_call(), 0);
  EXPECT_GT(whole[0].bytes, 0);
}

TEST(TensorCut, SegmentsCoverTheTensor) {
  EXPECT_EQ(segment_elements(1000000000), std::size_t{1} << 20);
  EXPECT_EQ(segment_elements(30000000), 65536u);
  EXPECT_EQ(segment_elements(100), 4096u);
  EXPECT_EQ(cut_tensor(10000, {}, 4096), (std::vector<std::size_t>{4096, 8192, 10000}));
  EXPECT_EQ(cut_tensor(8192, {}, 4096), (std::vector<std::size_t>{4096, 8192}));
  EXPECT_EQ(cut_tensor(1, {}, 4096), (std::vector<std::size_t>{1}));
}

TEST(TensorCut, LayersEndAtTiles) {
  const std::vector<Layer> layers{{0, 100, 0, 0}, {100, 4000, 0, 0}, {6000, 4000, 0, 0}};
  EXPECT_EQ(cut_tensor(10000, layers, 4096), (std::vector<std::size_t>{4096, 6144, 10000}));
  EXPECT_EQ(cut_tensor(10100, layers, 4096), (std::vector<std::size_t>{4096, 6144, 10100}));
  const auto hash = [](const std::vector<std::size_t>& ends) { return hash_of_cut(ends); };
  EXPECT_NE(hash({1024, 2048}), hash({2048}));
  EXPECT_EQ(hash({1024, 2048}), hash({1024, 2048}));
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
