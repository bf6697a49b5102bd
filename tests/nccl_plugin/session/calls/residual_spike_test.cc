#include "nccl_plugin/session/calls/residual_spike.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_mesh.h"

namespace ringpress::nccl_plugin {
namespace {

/// `share` of them are other than zero.
std::vector<float> values_of(std::size_t count, float size, std::uint32_t seed, double share = 1) {
  std::mt19937 dice(seed);
  std::uniform_real_distribution<float> value(-size, size);
  std::bernoulli_distribution is_used(share);
  std::vector<float> values(count);
  for (float& one : values) one = is_used(dice) ? value(dice) : 0.0F;
  return values;
}

/// After a residual like `before`.
bool is_dropped(const std::vector<float>& before, std::vector<float> after) {
  float usual = 0;
  std::vector<float> residual = before;
  EXPECT_FALSE(drop_spike(residual.data(), residual.size(), &usual)) << "the first is usual";
  EXPECT_EQ(residual, before);
  const std::vector<float> grown = after;
  const bool is_spike = drop_spike(after.data(), after.size(), &usual);
  EXPECT_EQ(after, is_spike ? std::vector<float>(after.size()) : grown);
  return is_spike;
}

TEST(ResidualSpike, IsDroppedWhereItIsFarLargerThanUsual) {
  for (const std::size_t count : {100, 257, 30000}) {
    EXPECT_TRUE(is_dropped(values_of(count, 1, 1), values_of(count, 500, 2)));
    EXPECT_FALSE(is_dropped(values_of(count, 1, 1), values_of(count, 20, 2)));
    EXPECT_FALSE(is_dropped(values_of(count, 1, 1), values_of(count, 0.1F, 2)));
  }
}

TEST(ResidualSpike, OfOneShardIsSeen) {
  std::vector<float> after = values_of(30000, 1, 2);
  for (std::size_t i = 0; i < after.size() / 8; ++i) after[i] *= 1000;
  EXPECT_TRUE(is_dropped(values_of(30000, 1, 1), after));
}

/// Embeddings: other rows each step.
TEST(ResidualSpike, FewValuesThatComeAnewAreNone) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    for (const double share : {0.001, 0.01, 0.1}) {
      EXPECT_FALSE(
          is_dropped(values_of(30000, 1, seed, share), values_of(30000, 1, seed + 1000, share)))
          << share;
    }
  }
}

/// As where two losses come in turns, or a model is frozen for a while.
TEST(ResidualSpike, WhatIsLargeNowAndThenIsUsual) {
  float usual = 0;
  for (std::uint32_t step = 0; step < 200; ++step) {
    const float size = step % 30 == 0 ? 1000 : step % 7 == 0 ? 0 : 1;
    std::vector<float> residual = values_of(1000, size, step);
    EXPECT_FALSE(drop_spike(residual.data(), residual.size(), &usual)) << step;
  }
}

TEST(ResidualSpike, WhatStaysLargeIsDroppedOnce) {
  float usual = 0;
  for (std::uint32_t step = 0; step < 20; ++step) {
    std::vector<float> residual = values_of(1000, step < 10 ? 1 : 1000, step);
    EXPECT_EQ(drop_spike(residual.data(), residual.size(), &usual), step == 10) << step;
  }
}

TEST(ResidualSpike, NothingIsDoneWithoutAResidualOrNumbers) {
  float usual = 1;
  EXPECT_FALSE(drop_spike(nullptr, 1000, nullptr));
  std::vector<float> residual(1000, std::numeric_limits<float>::infinity());
  EXPECT_FALSE(drop_spike(residual.data(), residual.size(), &usual));
}

/// The largest error of the sums in steps 31 on, if in step 30 one rank's gradient is so many times
/// too large.
double error_after(const char* codec, float spike) {
  constexpr std::size_t kCount = 20000, kSpike = 30, kSteps = 40;
  constexpr int kRanks = 3;
  const Settings settings =
      parse_settings({{"RINGPRESS_CODEC", codec}, {"RINGPRESS_MIN_BYTES", "0"}}, nullptr);
  const auto fabric = std::make_shared<testing::ThreadFabric>(kRanks, false);
  double worst = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      MeshCommunicator communicator(std::make_unique<testing::ThreadMesh>(fabric, rank), settings);
      std::vector<float> values(kCount), result(kCount), exact(kCount);
      for (std::size_t step = 0; step < kSteps; ++step) {
        std::fill(exact.begin(), exact.end(), 0.0F);
        for (int r = 0; r < kRanks; ++r) {
          const std::vector<float> of_rank = testing::random_gradient(kCount, step, r);
          const float scale = step == kSpike && r == 1 ? spike : 1;
          for (std::size_t i = 0; i < kCount; ++i) {
            exact[i] += scale * of_rank[i];
            if (r == rank) values[i] = scale * of_rank[i];
          }
        }
        const Status status =
            communicator.all_reduce(values.data(), result.data(), kCount, DType::kFloat32, {});
        EXPECT_TRUE(status.is_ok()) << status.message();
        if (step <= kSpike || rank != 0) continue;
        double difference = 0, size = 0;
        for (std::size_t i = 0; i < kCount; ++i) {
          difference += std::pow(result[i] - exact[i], 2);
          size += std::pow(exact[i], 2);
        }
        worst = std::max(worst, std::sqrt(difference / size));
      }
      EXPECT_EQ(communicator.statistics().compressed_calls, kSteps);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return worst;
}

TEST(ResidualSpike, DoesNotSpoilTheStepsThatFollow) {
  for (const char* const codec : {"q4", "q8", "sign"}) {
    const double usual = error_after(codec, 1);
    EXPECT_LT(error_after(codec, 1e4F), 2 * usual) << codec;
    EXPECT_LT(error_after(codec, -1e6F), 2 * usual) << codec;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
