// RINGPRESS_ADJUST_STEPS keeps what it promises: over many steps neither a call nor the mean over
// steps loses more than with one level for all.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/support/leveled_training.h"

namespace ringpress::nccl_plugin::leveled_budget_test {
namespace {

using testing::make_gradients;
using testing::Training;
using testing::TrainingErrors;
using testing::TrainingKind;

constexpr double kHeld = 1.05;
// When the sequence of calls is known: nothing is kept yet, and all that is left out from then on.
constexpr std::size_t kFirstWithFeedback = 2;

std::string text_of(TrainingKind kind, const std::string& codec, const std::string& feedback) {
  return codec + ", error feedback " + feedback + ", gradients of kind " +
         std::to_string(static_cast<int>(kind));
}

/// A tenth as large from one call to the next.
void expect_held(TrainingKind kind, const std::string& codec, int world, std::size_t steps,
                 const std::string& adjust_steps) {
  for (const char* const feedback : {"1", "0"}) {
    const auto gradients = make_gradients(kind, {2048, 3072, 4096}, world, steps, 10);
    const Training training{
        world, steps, kFirstWithFeedback, {{"RINGPRESS_CODEC", codec}, {"RINGPRESS_EF", feedback}}};
    const TrainingErrors ratio = leveled_over_uniform(gradients, training, adjust_steps);
    EXPECT_LE(ratio.of_calls, kHeld) << text_of(kind, codec, feedback);
    EXPECT_LE(ratio.of_mean, kHeld) << text_of(kind, codec, feedback);
    EXPECT_LT(ratio.sent_bytes, kHeld) << text_of(kind, codec, feedback);
    EXPECT_TRUE(ratio.ranks_agree);
  }
}

// Many steps, as what is not sent adds up for hundreds of them at the lowest densities.
TEST(LeveledBudget, IsHeldByDensities) {
  for (const auto kind : testing::kTrainingKinds) {
    expect_held(kind, "topk:density=0.04", kind == TrainingKind::kConstant ? 3 : 2, 200, "50");
  }
}

TEST(LeveledBudget, IsHeldByBits) {
  for (const auto kind : testing::kTrainingKinds) {
    expect_held(kind, "q4", kind == TrainingKind::kConstant ? 3 : 2, 80, "20");
  }
}

TEST(LeveledBudget, IsHeldByBitsOfTheOtherGrid) {
  expect_held(TrainingKind::kConstant, "q3:grid=lloyd", 2, 60, "20");
  expect_held(TrainingKind::kAlternating, "q3:grid=lloyd", 2, 60, "20");
}

// It is worth it.
TEST(LeveledBudget, SendsFewerBytes) {
  for (const char* const codec : {"topk:density=0.04", "q4"}) {
    const auto gradients = make_gradients(TrainingKind::kConstant, {2048, 3072, 4096}, 2, 200, 10);
    const TrainingErrors ratio =
        leveled_over_uniform(gradients, {2, 200, 60, {{"RINGPRESS_CODEC", codec}}}, "50");
    EXPECT_LT(ratio.sent_bytes, 0.85) << codec;
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::leveled_budget_test
