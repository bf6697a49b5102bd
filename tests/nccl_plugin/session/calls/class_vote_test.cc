#include "nccl_plugin/session/calls/class_vote.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/ballots.h"

namespace ringpress::nccl_plugin {
namespace {

/// The calls of `total`, from the first one that counts on, at which the ranks vote.
std::vector<std::size_t> votes_of(std::size_t period, std::size_t total) {
  ClassVote vote;
  vote.begin_steps(period, true);
  std::vector<std::size_t> votes;
  for (std::size_t call = 1; call <= total; ++call) {
    vote.note({}, {});
    if (!vote.is_due()) continue;
    votes.push_back(call);
    vote.end();
  }
  return votes;
}

TEST(ClassVote, ComesEverMoreSeldom) {
  EXPECT_EQ(votes_of(1, 100), (std::vector<std::size_t>{8, 16, 32, 64}));
  EXPECT_EQ(votes_of(5, 100), (std::vector<std::size_t>{15, 30, 60}));
}

/// Where votes travel: the calls at which results count, and those before which that is foretold.
TEST(ClassVote, IsHeardStepsLater) {
  for (const std::size_t period : {1, 3, 5, 40}) {
    ClassVote vote(2);
    vote.begin_steps(period, true);
    std::size_t voted = 0, heard = 0, votes = 0;
    for (std::size_t call = 1; call <= 1000; ++call) {
      const bool is_foretold = vote.may_be_heard_next();
      vote.note({}, {});
      EXPECT_EQ(vote.is_result_due(), is_foretold);
      EXPECT_FALSE(vote.is_result_due() && vote.is_due());
      if (vote.is_due()) {
        EXPECT_GE(voted, votes == 0 ? 0 : 1u);
        EXPECT_GE(heard, voted);  // The one before has been heard.
        voted = call;
        ++votes;
      }
      if (!vote.is_result_due()) continue;
      EXPECT_EQ(call, voted + 2 * period);
      heard = call;
      vote.end();
    }
    EXPECT_GT(votes, 2u) << period;
  }
}

/// Another step begins before the result counts: it does not count for that one.
TEST(ClassVote, IsNotHeardInAnotherStep) {
  ClassVote vote(2);
  vote.begin_steps(4, true);
  for (int call = 0; call < 14; ++call) {
    vote.note({}, {});
  }
  vote.begin_steps(3, true);
  for (std::size_t call = 1; call <= 9; ++call) {
    vote.note({}, {});
    EXPECT_FALSE(vote.is_result_due()) << call;
  }
  EXPECT_TRUE(vote.is_due());
}

TEST(ClassVote, IsNotHeldOnStepsThatAreKnown) {
  ClassVote vote;
  vote.begin_steps(3, false);
  for (int call = 0; call < 100; ++call) {
    vote.note({}, {});
    EXPECT_FALSE(vote.is_due());
    EXPECT_FALSE(vote.wants_values());
  }
}

/// Each call reads memory for them.
TEST(ClassVote, WantsValuesOfTheStepsBeforeAVoteAlone) {
  ClassVote vote;
  vote.begin_steps(5, true);
  std::size_t wanted = 0;
  for (std::size_t call = 1; call <= 60; ++call) {
    const bool wants = vote.wants_values();
    wanted += wants ? 1 : 0;
    vote.note({}, {});
    EXPECT_EQ(vote.has_room_for_values(), wants);
    if (vote.is_due()) vote.end();
  }
  EXPECT_EQ(wanted, 45u);  // Fifteen of them before each of three votes.
}

TEST(ClassVote, ACallThatIsNotOfTheStepIsNotVotedOn) {
  ClassVote vote;
  vote.begin_steps(1, true);
  for (int call = 0; call < 8; ++call) {
    vote.note({}, {});
  }
  EXPECT_TRUE(vote.is_due());
  EXPECT_TRUE(vote.has_room_for_values());
  vote.skip_call();
  EXPECT_FALSE(vote.is_due());
  EXPECT_FALSE(vote.has_room_for_values());
}

/// Values that are known once the call runs count as well.
TEST(ClassVote, AnswersByValuesThatComeLate) {
  for (const bool is_gradient : {true, false}) {
    ClassVote vote;
    vote.begin_steps(3, true);
    int buffers[3];
    for (std::size_t call = 0; call < 9; ++call) {
      vote.note({&buffers[call % 3], call % 3 == 0 ? 5e-3 : 1e-3, 1e-3}, {});
      ValueSample values;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool is_below = i % 2 == 0 || (is_gradient && call % 2 == 0 && i % 4 == 1);
        values[i] = is_below ? -1.0F : 1.0F;
      }
      vote.complete_values(values);
    }
    ClassBallot expected;
    if (!is_gradient) expected.add(0, Verdict::kValues);
    EXPECT_EQ(vote.answer(ballot_of_no()), expected);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
