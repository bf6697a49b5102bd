// Whether coordinate scales stay goes by times, of whichever order and noise.
#include "nccl_plugin/session/tuning/scale_trial.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr Choice kQ4{1, Algorithm::kSra, 0};
constexpr Choice kOther{1, Algorithm::kSra, 65536};

/// `epochs` announcements of a settled choice, with 20 calls each. Whether the last ones have
/// scales.
bool run(ScaleTrial* trial, int epochs, const std::function<double(bool has_scales)>& seconds) {
  bool has = false;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    has = trial->next(kQ4);
    for (int call = 0; call < 20; ++call) trial->note(seconds(has));
  }
  return has;
}

TEST(ScaleTrial, KeepsWhatTakesHardlyLonger) {
  ScaleTrial trial;
  EXPECT_FALSE(trial.has(kQ4));
  EXPECT_TRUE(run(&trial, 5, [](bool has) { return has ? 1.05 : 1.0; }));
  EXPECT_TRUE(trial.has(kQ4));
  EXPECT_FALSE(trial.has(kOther));
  EXPECT_FALSE(trial.is_trying());
}

TEST(ScaleTrial, LeavesWhatTakesLonger) {
  ScaleTrial trial;
  EXPECT_FALSE(run(&trial, 5, [](bool has) { return has ? 2.0 : 1.0; }));
  EXPECT_FALSE(trial.has(kQ4));
  EXPECT_FALSE(run(&trial, 50, [](bool has) { return has ? 0.5 : 1.0; })) << "it was decided";
}

TEST(ScaleTrial, MeasuresThreeTimesWhatIsNear) {
  ScaleTrial trial;
  int with = 0;
  EXPECT_FALSE(run(&trial, 50, [&with](bool has) {
    if (has) ++with;
    return has ? 1.2 : 1.0;
  }));
  EXPECT_EQ(with, 3 * 2 * 20);
}

TEST(ScaleTrial, IsNotMisledByLateRanks) {
  std::mt19937_64 engine(7);
  std::exponential_distribution<double> wait(2);
  for (int job = 0; job < 100; ++job) {
    ScaleTrial same;
    EXPECT_FALSE(run(&same, 50, [&](bool has) { return (has ? 2.5 : 1.0) + wait(engine); }));
  }
}

TEST(ScaleTrial, LearningDoesNotCount) {
  ScaleTrial trial;
  int with = 0;
  EXPECT_TRUE(run(&trial, 5, [&with](bool has) { return has && ++with <= 20 ? 3.0 : 1.0; }));
}

TEST(ScaleTrial, BeginsAnewWithWhatIsSettled) {
  ScaleTrial trial;
  EXPECT_TRUE(run(&trial, 5, [](bool) { return 1.0; }));
  trial.forget();
  EXPECT_FALSE(trial.has(kQ4));
  EXPECT_FALSE(trial.next(kQ4)) << "without them first";
  EXPECT_FALSE(trial.is_trying());
  EXPECT_FALSE(run(&trial, 5, [](bool has) { return has ? 2.0 : 1.0; }));
  EXPECT_FALSE(trial.next(kOther)) << "another choice is measured anew";
  trial.resume(kOther, true);
  EXPECT_TRUE(trial.next(kOther));
  EXPECT_FALSE(trial.is_trying());
}

TEST(ScaleTrial, WaitsForEnoughCalls) {
  ScaleTrial trial;
  for (int epoch = 0; epoch < 4; ++epoch) EXPECT_FALSE(trial.next(kQ4));
  for (int call = 0; call < 5; ++call) trial.note(1);
  EXPECT_TRUE(trial.next(kQ4));
  EXPECT_TRUE(trial.is_trying());
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
