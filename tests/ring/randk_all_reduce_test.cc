// All-reduces of random coordinates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/ring/projected_ranks.h"

namespace ringpress::testing {
namespace {

class RandomCoordinates : public Projected {};

/// Coordinates that are not zero.
std::vector<std::size_t> chosen(const std::vector<float>& result) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (result[i] != 0) found.push_back(i);
  }
  return found;
}

TEST_P(RandomCoordinates, EachIsVisitedOnceInACycle) {
  for (const std::size_t count : {1U, 5U, 64U, 1000U, 1009U, 4097U}) {
    const Tensors inputs(3, std::vector<float>(count, 1.5f));
    auto memory = memory_for("randk:density=0.1", 3, count);
    const std::size_t calls = (count + (count + 9) / 10 - 1) / ((count + 9) / 10);
    std::vector<std::vector<std::size_t>> first_cycle;
    for (std::uint64_t cycle = 0; cycle < 2; ++cycle) {
      std::vector<int> visits(count);
      for (std::uint64_t call = 0; call < calls; ++call) {
        for (auto& rank : memory) std::fill(rank.residual.begin(), rank.residual.end(), 0.0f);
        const auto result = all_reduce("randk:density=0.1", inputs, &memory, cycle * 77 + call)[0];
        for (const std::size_t i : chosen(result)) {
          ++visits[i];
          ASSERT_EQ(result[i], 4.5f);
        }
        if (cycle == 0) first_cycle.push_back(chosen(result));
      }
      ASSERT_EQ(visits, std::vector<int>(count, 1)) << count;
    }
    // They are spread over the tensor, not a piece of it.
    if (count < 1000) continue;
    for (const auto& slice : first_cycle) {
      EXPECT_LT(slice.front(), count / 4);
      EXPECT_GT(slice.back(), count - count / 4);
    }
  }
}

TEST_P(RandomCoordinates, NoIndexTravels) {
  const std::size_t count = 100000;
  const auto codec =
      compress_kernels::make_codec("randk:density=0.01", DType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(codec.value()->projection()->projected_count(0, {count, {}}), count / 100 + 1);
}

TEST_P(RandomCoordinates, ErrorFeedbackDeliversAllInACycle) {
  const std::size_t count = 3000;
  const Tensors inputs{random_gradient(count, 1, 0), random_gradient(count, 1, 1)};
  const auto exact = exact_sum(inputs, ReduceOp::kSum);
  const Tensors nothing(2, std::vector<float>(count));
  for (const char* code : {"none", "q8", "q4", "qsgd", "qsgd-ms", "qsgd,bits=8"}) {
    const std::string codec = std::string("randk:density=0.05,code=") + code;
    auto memory = memory_for(codec, 2, count);
    std::vector<float> total = all_reduce(codec, inputs, &memory, 0)[0];
    for (std::uint64_t call = 1; call < 160; ++call) {
      const auto result = all_reduce(codec, nothing, &memory, call)[0];
      for (std::size_t i = 0; i < count; ++i) total[i] += result[i];
    }
    EXPECT_LT(relative_error(total, exact), 1e-4) << code;
  }
}

TEST_P(RandomCoordinates, UnbiasedSumsHaveTheRightMeanOverACycle) {
  const std::size_t count = 1000;
  const Tensors inputs{random_gradient(count, 1, 0), random_gradient(count, 1, 1)};
  const std::string codec = "randk:density=0.05,unbiased=1";
  auto memory = memory_for(codec, 2, count);
  std::vector<float> mean(count);
  for (std::uint64_t call = 0; call < 20; ++call) {
    const auto result = all_reduce(codec, inputs, &memory, call, ReduceOp::kAvg)[0];
    for (std::size_t i = 0; i < count; ++i) mean[i] += result[i] / 20;
  }
  EXPECT_LT(relative_error(mean, exact_sum(inputs, ReduceOp::kAvg)), 1e-6);
  EXPECT_EQ(memory[0].residual, std::vector<float>(count));
}

TEST_P(RandomCoordinates, NonFiniteValuesAnywhereComeOutEverywhere) {
  const std::size_t count = 2000;
  Tensors inputs{random_gradient(count, 1, 0), random_gradient(count, 1, 1)};
  for (const char* codec : {"randk", "randk:code=q4", "randk:code=qsgd"}) {
    auto memory = memory_for(codec, 2, count);
    all_reduce(codec, inputs, &memory, 0);
    const auto before = memory;
    for (const float poison : {std::nanf(""), INFINITY, -INFINITY}) {
      Tensors bad = inputs;
      bad[1][1234] = poison;
      const auto results = all_reduce(codec, bad, &memory, 1);
      for (const float value : results[0]) ASSERT_TRUE(std::isnan(value));
      for (std::size_t rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(memory[rank].residual, before[rank].residual);
        EXPECT_EQ(memory[rank].state.values, before[rank].state.values);
      }
    }
  }
}

TEST_P(RandomCoordinates, RanksThatLostTheirPlaceStillAgree) {
  const std::size_t count = 2000;
  const Tensors inputs{random_gradient(count, 1, 0), random_gradient(count, 1, 1)};
  auto memory = memory_for("randk", 2, count);
  for (std::uint64_t call = 0; call < 5; ++call) all_reduce("randk", inputs, &memory, call);
  memory[1].state.call = 0;
  const auto result = all_reduce("randk", inputs, &memory, 5)[0];
  EXPECT_GE(chosen(result).size(), 19U);
  EXPECT_EQ(memory[0].state.values, memory[1].state.values);
}

/// What a call without a finite result leaves behind is the same on all ranks, whatever they held.
TEST_P(RandomCoordinates, RanksThatLostTheirPlaceAgreeAfterAnOverflow) {
  const std::size_t count = 2000;
  const Tensors inputs{random_gradient(count, 1, 0), random_gradient(count, 1, 1)};
  auto memory = memory_for("randk", 2, count);
  for (std::uint64_t call = 0; call < 5; ++call) all_reduce("randk", inputs, &memory, call);
  memory[1].state.call = 0;
  memory[1].state.values = {0, 0};
  Tensors overflow = inputs;
  overflow[0][7] = INFINITY;
  all_reduce("randk", overflow, &memory, 5);
  EXPECT_EQ(memory[0].state.values, memory[1].state.values);
  const auto results = all_reduce("randk", inputs, &memory, 6);
  EXPECT_EQ(results[0], results[1]);
}

INSTANTIATE_TEST_SUITE_P(Ring, RandomCoordinates, ::testing::Values(Algorithm::kRing));
INSTANTIATE_TEST_SUITE_P(Sra, RandomCoordinates, ::testing::Values(Algorithm::kSra));

}  // namespace
}  // namespace ringpress::testing
