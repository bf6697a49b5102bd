// Whose residual a call gets, in random programs. Many more of them: feedback_perf identity.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "nccl_plugin/session/calls/error_feedback.h"
#include "tests/support/random_program.h"

namespace ringpress::nccl_plugin {
namespace {

using testing::Buffers;
using testing::Program;
using testing::Residuals;
using testing::run_programs;

constexpr std::uint32_t kPrograms = 300;

TEST(FeedbackIdentity, OfTensorsThatKeepTheirBuffers) {
  const Residuals found = run_programs(Program::kSteps, Buffers::kKept, kPrograms);
  EXPECT_EQ(found.others, 0U) << "of " << found.found;
  EXPECT_GT(found.found, 2 * found.calls / 3);
}

TEST(FeedbackIdentity, OfTensorsThatMove) {
  const Residuals found = run_programs(Program::kSteps, Buffers::kMoved, kPrograms);
  EXPECT_EQ(found.others, 0U) << "of " << found.found;
  EXPECT_GT(found.found, 2 * found.calls / 3);
}

TEST(FeedbackIdentity, OfTensorsInBuffersThatHeldOthers) {
  const Residuals found = run_programs(Program::kSteps, Buffers::kRebuilt, kPrograms);
  EXPECT_EQ(found.others, 0U) << "of " << found.found;
  EXPECT_GT(found.found, 2 * found.calls / 3);
}

TEST(FeedbackIdentity, OfTensorsInNewBuffersEachTime) {
  const Residuals found = run_programs(Program::kSteps, Buffers::kAnew, kPrograms);
  EXPECT_EQ(found.others, 0U) << "of " << found.found;
  EXPECT_GT(found.found, found.calls / 2);
}

/// Values that are logged, evaluations and the like: tensors keep the residual that they have.
TEST(FeedbackIdentity, OfATrainingThatLogsAndEvaluates) {
  const Residuals found = run_programs(Program::kTraining, Buffers::kKept, kPrograms);
  EXPECT_EQ(found.others, 0U) << "of " << found.found;
  EXPECT_GT(found.found, 4 * found.calls / 5);
  EXPECT_LT(found.anew, found.calls / 200);
}

/// Steps of three tensors and, where `has_added`, one more that is small beside them.
class GrowingStep {
 public:
  /// Residuals that the three had, and that one.
  std::pair<int, bool> make(bool has_added) {
    int found = 0;
    for (std::size_t i = 0; i < 3; ++i) found += find(kCounts[i], i) ? 1 : 0;
    return {found, has_added && find(kCounts[3], 3)};
  }
  std::size_t bytes() const { return feedback_.bytes(); }

 private:
  static constexpr std::array<std::size_t, 4> kCounts = {200, 150, 90, 50};

  bool find(std::size_t count, std::size_t i) {
    const auto address = reinterpret_cast<const void*>((std::uintptr_t{1} << 20) + 4096 * i);
    const TensorCall call{CollectiveKind::kAllReduce, count, DType::kFloat32, ReduceOp::kSum,
                          address};
    float* const residual = feedback_.find(call).residual;
    if (residual == nullptr) return false;
    const float before = residual[0];
    residual[0] = static_cast<float>(i + 1);
    EXPECT_EQ(before, std::exchange(is_known_[i], true) ? residual[0] : 0.0F) << i;
    return true;
  }

  ErrorFeedback feedback_{0};
  std::array<bool, 4> is_known_ = {};
};

TEST(FeedbackIdentity, OfASmallTensorThatTheStepGets) {
  GrowingStep step;
  for (int i = 0; i < 20; ++i) step.make(false);
  EXPECT_EQ(step.make(false), std::pair(3, false));
  for (int i = 1; i < 30; ++i) EXPECT_EQ(step.make(true), std::pair(3, i >= 8)) << i;
  EXPECT_EQ(step.bytes(), (200 + 150 + 90 + 50) * sizeof(float));
  for (int i = 0; i < 2; ++i) step.make(false);  // That it has gone again is seen in the second.
  for (int i = 0; i < 30; ++i) EXPECT_EQ(step.make(false), std::pair(3, false)) << i;
  for (int i = 1; i < 30; ++i) EXPECT_EQ(step.make(true), std::pair(3, i >= 8)) << i;
  EXPECT_EQ(step.bytes(), (200 + 150 + 90 + 50) * sizeof(float));
}

/// What comes now and then is a value that is logged.
TEST(FeedbackIdentity, IsNotTouchedByWhatComesInMostSteps) {
  GrowingStep step;
  for (int i = 0; i < 20; ++i) step.make(false);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(step.make(i % 7 != 0), std::pair(3, false)) << i;
}

/// What the calls alone do not show: steps of equal shapes, in buffers that are new each time.
TEST(FeedbackIdentity, IsThatOfTheShapesWhereNothingElseIsKnown) {
  ErrorFeedback feedback(0);
  std::uintptr_t address = 0;
  const auto find = [&](std::size_t count) {
    return feedback.find({CollectiveKind::kAllReduce, count, DType::kFloat32, ReduceOp::kSum,
                          reinterpret_cast<const void*>(address += 4096)});
  };
  for (int i = 0; i < 10; ++i) {
    find(10);
    find(20);
  }
  float* const first = find(10).residual;
  ASSERT_NE(first, nullptr);
  find(20);
  EXPECT_EQ(find(10).residual, first) << "whether or not it is another tensor";
}

}  // namespace
}  // namespace ringpress::nccl_plugin
