// Whose residual a call gets, in random programs. Many more of them: feedback_perf identity.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

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
