// Bits for each call of a step: the same on all ranks, fewer bytes, no more error.
#include "nccl_plugin/tuning/step_levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compress_kernels/factory.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_peers.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

using testing::run_peers;
using testing::ThreadPeers;

/// A call of a step: how many values, and how large they are.
struct StepCall {
  std::size_t count = 0;
  float scale = 1;
};

const std::vector<StepCall> kStep{{20000, 1}, {30000, 0.01f}, {40000, 1e-4f}};

Settings adjusting(const char* accordion) {
  return parse_settings({{"RINGPRESS_ADJUST_STEPS", "5"}, {"RINGPRESS_ACCORDION", accordion}},
                        nullptr);
}

std::vector<float> values_of(const StepCall& call, int rank) {
  std::vector<float> values = testing::random_gradient(call.count, call.count, rank);
  for (float& value : values) value *= call.scale;
  return values;
}

/// One rank's steps.
class Steps {
 public:
  explicit Steps(ThreadPeers& peers, const char* accordion = "0")
      : settings_(adjusting(accordion)),
        peers_(peers),
        levels_(settings_, peers, find_bit_levels("q4").value()) {}

  StepLevels& levels() { return levels_; }

  /// Codecs of the step's calls.
  std::vector<std::string> make(const std::vector<StepCall>& step, float poison = 0) {
    std::vector<std::string> codecs;
    for (const StepCall& call : step) {
      PlanRequest request;
      request.count = call.count;
      Plan plan;
      plan.codec = "q4";
      const Status status = levels_.choose(request, &plan);
      EXPECT_TRUE(status.is_ok()) << status.message();
      codecs.push_back(plan.codec);
      if (!levels_.wants_values()) continue;
      std::vector<float> values = values_of(call, peers_.rank());
      values[7] += poison;
      levels_.take({values.data(), nullptr, call.count, DType::kFloat32});
    }
    return codecs;
  }

 private:
  const Settings settings_;
  ThreadPeers& peers_;
  StepLevels levels_;
};

double error_of(const StepCall& call, int bits, int ranks) {
  double largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = values_of(call, rank);
    const int wanted[] = {bits};
    largest =
        std::max(largest, compress_kernels::measure_bit_errors(
                              {values.data(), nullptr, call.count, DType::kFloat32}, 128, wanted)
                              .value()[0]);
  }
  return largest;
}

TEST(BitLevels, AreThoseOfTheUniformGrid) {
  EXPECT_EQ(find_bit_levels("q4")->specification(3), "q3:block=128,grid=uniform,round=nearest");
  EXPECT_EQ(find_bit_levels("q5:block=64")->block, 64u);
  EXPECT_EQ(find_bit_levels("q5:block=64")->default_bits, 5);
  for (const char* const other :
       {"q1", "q4:grid=lloyd", "q4:round=stochastic", "bf16", "none", "x"}) {
    EXPECT_FALSE(find_bit_levels(other)) << other;
  }
}

TEST(StepLevels, SendFewerBytesAtNoMoreError) {
  constexpr int kRanks = 3;
  std::vector<std::vector<int>> found(kRanks);
  run_peers(kRanks, [&](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(kStep);
    found[static_cast<std::size_t>(peers.rank())] = steps.levels().bits();
  });
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[2], found[0]);
  ASSERT_EQ(found[0].size(), kStep.size());
  double error = 0, allowed = 0, bytes = 0, before = 0;
  // The pattern's first place is some call of the step, the same on all ranks.
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t shift = 0; shift < kStep.size(); ++shift) {
    error = allowed = bytes = before = 0;
    for (std::size_t i = 0; i < kStep.size(); ++i) {
      const StepCall& call = kStep[(i + shift) % kStep.size()];
      error += error_of(call, found[0][i], kRanks);
      allowed += error_of(call, 4, kRanks);
      bytes += static_cast<double>(call.count) * found[0][i];
      before += static_cast<double>(call.count) * 4;
    }
    if (error <= allowed * (1 + 1e-9)) best = std::min(best, bytes / before);
  }
  EXPECT_LT(best, 0.85);
}

TEST(StepLevels, GiveEachPlaceItsCodecUntilTheStepIsAnother) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(kStep);
    const std::vector<std::string> codecs = steps.make(kStep);
    EXPECT_EQ(codecs[2], "q2:block=128,grid=uniform,round=nearest");
    EXPECT_NE(codecs[0], codecs[2]);
    EXPECT_EQ(steps.make(kStep), codecs);
    const std::vector<StepCall> other{{25000, 1}, {26000, 1}};
    EXPECT_EQ(steps.make(other), (std::vector<std::string>{"q4", "q4"}));
    EXPECT_TRUE(steps.levels().bits().empty());
  });
}

// Critical at first, calm when the norms stay, critical again when they double, on all ranks.
TEST(StepLevels, AccordionGivesMoreBitsWhereTheNormChanges) {
  std::vector<std::vector<std::size_t>> sums(2);
  run_peers(2, [&](ThreadPeers& peers) {
    Steps steps(peers, "1");
    const auto sum_of_bits = [&steps] {
      std::size_t sum = 0;
      for (const int bits : steps.levels().bits()) sum += static_cast<std::size_t>(bits);
      return sum;
    };
    auto& own = sums[static_cast<std::size_t>(peers.rank())];
    std::vector<StepCall> step = kStep;
    for (int i = 0; i < 10; ++i) {
      steps.make(step);
      if (own.empty() && sum_of_bits() != 0) own.push_back(sum_of_bits());
    }
    for (int i = 0; i < 10; ++i) steps.make(step);
    own.push_back(sum_of_bits());
    for (StepCall& call : step) call.scale *= 2;
    for (int i = 0; i < 6; ++i) steps.make(step);
    own.push_back(sum_of_bits());
  });
  EXPECT_EQ(sums[1], sums[0]);
  ASSERT_EQ(sums[0].size(), 3u);
  EXPECT_GT(sums[0][0], sums[0][1]);
  EXPECT_EQ(sums[0][2], sums[0][0]);
}

// A loss scaler that overflows: the levels stay as they are.
TEST(StepLevels, IgnoreAStepThatIsNotFinite) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 30; ++i) steps.make(kStep, INFINITY);
    EXPECT_TRUE(steps.levels().bits().empty());
  });
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
