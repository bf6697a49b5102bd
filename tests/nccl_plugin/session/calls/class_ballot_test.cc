#include "nccl_plugin/session/calls/class_ballot.h"

#include <gtest/gtest.h>

#include "tests/support/ballots.h"

namespace ringpress::nccl_plugin {
namespace {

TEST(ClassBallot, IsForGradientsUntilSomethingSpeaksAgainst) {
  ClassBallot ballot;
  EXPECT_EQ(ballot.of(3), Verdict::kGradients);
  ballot.add(3, Verdict::kBuffers);
  ballot.add(3, Verdict::kPauses);
  EXPECT_EQ(ballot.of(3), Verdict::kBuffers);
  EXPECT_EQ(ballot.of(2), Verdict::kGradients);
}

TEST(ClassBallot, TheLastShapeStandsForAllOthers) {
  ClassBallot ballot;
  ballot.add(1000, Verdict::kValues);
  EXPECT_EQ(ballot.of(ClassBallot::kShapes - 1), Verdict::kValues);
  EXPECT_EQ(ballot.of(ClassBallot::kShapes + 5), Verdict::kValues);
  EXPECT_EQ(ballot.of(ClassBallot::kShapes - 2), Verdict::kGradients);
}

TEST(ClassBallot, OneThatSaysNoIsEnough) {
  ClassBallot all, one;
  one.add(4, Verdict::kPauses);
  all.add(one);
  all.add(ClassBallot());
  EXPECT_EQ(all, one);
  all.add(ballot_of_no());
  for (std::size_t i = 0; i < ClassBallot::kShapes; ++i) {
    EXPECT_EQ(all.of(i), i == 4 ? Verdict::kPauses : Verdict::kUnsaid);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
