#include "nccl_plugin/session/calls/class_ballot.h"

#include <gtest/gtest.h>

#include <random>

namespace ringpress::nccl_plugin {
namespace {

TEST(ClassBallot, IsForGradientsUntilSomethingSpeaksAgainst) {
  ClassBallot ballot;
  EXPECT_EQ(ballot.number(), 0);
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
  all.add(ClassBallot::of_no());
  for (std::size_t i = 0; i < ClassBallot::kShapes; ++i) {
    EXPECT_EQ(all.of(i), i == 4 ? Verdict::kPauses : Verdict::kUnsaid);
  }
}

TEST(ClassBallot, ANumberSaysWhichAreGradients) {
  std::mt19937 dice(1);
  for (int i = 0; i < 1000; ++i) {
    ClassBallot ballot;
    for (std::size_t shape = 0; shape < ClassBallot::kShapes; ++shape) {
      if (dice() % 8 == 0) ballot.add(shape, static_cast<Verdict>(1 + dice() % 4));
    }
    const std::int32_t number = ballot.number();
    EXPECT_GE(number, 0);
    EXPECT_LT(number, 1 << 30);
    const ClassBallot sent = ClassBallot::of_number(number);
    EXPECT_EQ(sent.number(), number);
    for (std::size_t shape = 0; shape < 29; ++shape) {
      EXPECT_EQ(sent.of(shape) == Verdict::kGradients, ballot.of(shape) == Verdict::kGradients);
    }
    for (std::size_t shape = 29; shape < ClassBallot::kShapes; ++shape) {
      // One of them that is none is enough for all.
      if (ballot.of(shape) == Verdict::kGradients) continue;
      EXPECT_NE(sent.of(29), Verdict::kGradients);
      EXPECT_NE(sent.of(ClassBallot::kShapes - 1), Verdict::kGradients);
    }
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
