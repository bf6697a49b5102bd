#include "nccl_plugin/session/calls/call_evidence.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "tests/support/ballots.h"

namespace ringpress::nccl_plugin {
namespace {

const void* block(std::size_t number) {
  return reinterpret_cast<const void*>((number + 1) << 20);
}

bool say_gradients(const CallEvidence& evidence) {
  return evidence.is_enough() && evidence.ballot(ballot_of_no()) == ClassBallot();
}

/// So many steps of calls from blocks 0 to `period` - 1, with these pauses before them. `shapes`:
/// different ones.
CallEvidence evidence_of(std::size_t steps, const std::vector<double>& pauses,
                         double call_seconds = 1e-3, std::size_t shapes = 1) {
  CallEvidence evidence;
  evidence.begin_steps(pauses.size());
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < pauses.size(); ++i) {
      evidence.note({block(i), pauses[i], call_seconds, true, i % shapes});
    }
  }
  return evidence;
}

TEST(CallEvidence, NeedsTwoStepsAndSixCalls) {
  EXPECT_FALSE(say_gradients(evidence_of(2, {5e-3, 1e-3})));
  EXPECT_TRUE(say_gradients(evidence_of(3, {5e-3, 1e-3})));
  EXPECT_FALSE(say_gradients(evidence_of(1, {5e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3})));
}

TEST(CallEvidence, OnePauseOfAStepIsLong) {
  EXPECT_TRUE(say_gradients(evidence_of(4, {4e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3})));
  EXPECT_FALSE(say_gradients(evidence_of(4, {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3})));
}

TEST(CallEvidence, CallsWithoutPausesAreTaken) {
  EXPECT_TRUE(say_gradients(evidence_of(4, {1e-5, 1e-5, 1e-5})));
  EXPECT_TRUE(say_gradients(evidence_of(6, {1e-5})));
}

TEST(CallEvidence, EqualCallsTakeLongerToBeTaken) {
  EXPECT_FALSE(say_gradients(evidence_of(100, {5e-3})));
  EXPECT_TRUE(say_gradients(evidence_of(CallEvidence::kEqualCalls, {5e-3})));
}

TEST(CallEvidence, UnevenPausesBetweenEqualCallsAreOfLayers) {
  CallEvidence evidence;
  evidence.begin_steps(1);
  for (std::size_t i = 0; i < 2 * CallEvidence::kEqualCalls; ++i) {
    evidence.note({block(0), i / 10 % 2 == 0 ? 1e-3 : 2e-3, 1e-3});
  }
  EXPECT_FALSE(say_gradients(evidence));
}

TEST(CallEvidence, EachCallHasABufferOfItsOwn) {
  CallEvidence anew, shared;
  anew.begin_steps(2);
  shared.begin_steps(2);
  for (std::size_t i = 0; i < 20; ++i) {
    const double pause = i % 2 == 0 ? 5e-3 : 1e-3;
    anew.note({block(i), pause, 1e-3});
    shared.note({block(0), pause, 1e-3});
  }
  EXPECT_FALSE(say_gradients(anew));
  EXPECT_FALSE(say_gradients(shared));
}

/// Over a slow link calls take long; layers still compute between them.
TEST(CallEvidence, ShortPausesBetweenLongCallsArePauses) {
  EXPECT_FALSE(say_gradients(evidence_of(4, {1e-3, 1e-3, 1e-3, 1e-3, 1e-3}, 1)));
  EXPECT_TRUE(say_gradients(evidence_of(4, {9e-3, 1e-3, 1e-3, 1e-3, 1e-3}, 1)));
}

TEST(CallEvidence, WithoutPausesThatAreKnownManySizesAreNeeded) {
  EXPECT_FALSE(say_gradients(evidence_of(10, {-1, -1})));
  EXPECT_TRUE(say_gradients(evidence_of(10, {-1, -1, -1}, 1e-3, 3)));
}

// Buckets 0 and 1, and every fifth step an evaluation from new memory.
TEST(CallEvidence, AnEvaluationIsLeftOutAndTheRestIsNot) {
  CallEvidence evidence;
  evidence.begin_steps(11);
  std::size_t moved = 100;
  for (std::size_t step = 0; step < 15; ++step) {
    evidence.note({block(0), 5e-3, 1e-3, true, 0});
    evidence.note({block(1), 1e-3, 1e-3, true, 1});
    if (step % 5 == 4) evidence.note({block(moved++), 9e-3, 1e-3, true, 2});
  }
  ClassBallot expected;
  expected.add(2, Verdict::kBuffers);
  EXPECT_EQ(evidence.ballot(ballot_of_no()), expected);
}

/// Buckets 0 to `buckets` - 1, and every fifth step sums from buffers of their own.
CallEvidence scored_evidence(std::size_t buckets, std::size_t sums) {
  CallEvidence evidence;
  evidence.begin_steps(5 * buckets + sums);
  for (std::size_t step = 0; step < 20; ++step) {
    for (std::size_t i = 0; i < buckets; ++i) {
      evidence.note({block(i), i == 0 ? 5e-3 : 1e-3, 1e-3, true, i});
    }
    for (std::size_t i = 0; step % 5 == 4 && i < sums; ++i) {
      evidence.note({block(buckets + i), i == 0 ? 9e-3 : 1e-3, 1e-3, true, buckets + i});
    }
  }
  return evidence;
}

TEST(CallEvidence, SumsThatComeEveryFewStepsAreNoGradientsAndTheOthersAre) {
  for (const std::size_t sums : {1, 2, 3}) {
    ClassBallot expected;
    for (std::size_t i = 0; i < sums; ++i) expected.add(3 + i, Verdict::kUnsaid);
    EXPECT_EQ(scored_evidence(3, sums).ballot(ballot_of_no()), expected) << sums;
  }
}

/// Two calls may be those of a layer, and the sum that of a step of layers.
TEST(CallEvidence, TwoCallsThatRepeatBetweenOthersAreGradientsIfTheyWere) {
  ClassBallot expected, usual;
  expected.add(2, Verdict::kUnsaid);
  usual.add(2, Verdict::kUnsaid);
  EXPECT_EQ(scored_evidence(2, 1).ballot(usual), expected);
  const ClassBallot found = scored_evidence(2, 1).ballot(ballot_of_no());
  EXPECT_EQ(found.of(0), Verdict::kBuffers);
  EXPECT_EQ(found.of(1), Verdict::kBuffers);
}

TEST(CallEvidence, CallsThatShareABufferAreNoGradients) {
  CallEvidence evidence;
  evidence.begin_steps(4);
  for (std::size_t i = 0; i < 16; ++i) {
    evidence.note({block(i % 4 == 3 ? 2 : i % 4), i % 4 == 0 ? 5e-3 : 1e-3, 1e-3, true, i % 4});
  }
  ClassBallot expected;
  expected.add(2, Verdict::kBuffers);
  expected.add(3, Verdict::kBuffers);
  EXPECT_EQ(evidence.ballot(ballot_of_no()), expected);
}

/// Layers have their halves in two buffers, and one half takes longer.
TEST(CallEvidence, EqualCallsFromBuffersInTurnsAreNoGradients) {
  CallEvidence evidence;
  evidence.begin_steps(1);
  for (std::size_t i = 0; i < 2 * CallEvidence::kEqualCalls; ++i) {
    evidence.note({block(i % 2), i % 2 == 0 ? 6e-3 : 2e-3, 1e-3});
  }
  EXPECT_FALSE(say_gradients(evidence));
}

/// Blocks that were free by chance, twice the same ones.
TEST(CallEvidence, ABufferThatOthersHaveHadIsNotItsOwn) {
  CallEvidence evidence;
  evidence.begin_steps(3);
  for (std::size_t i = 0; i < 4; ++i) {
    evidence.note({block(0), 6e-3, 1e-3, true, 0});
    evidence.note({block(1), 1e-3, 1e-3, true, 1});
    evidence.note({block(i % 3), 1e-3, 1e-3, true, 2});
  }
  ClassBallot expected;
  for (const std::size_t shape : {0, 1, 2}) expected.add(shape, Verdict::kBuffers);
  EXPECT_EQ(evidence.ballot(ballot_of_no()), expected);
}

TEST(CallEvidence, ValuesThatHardlyChangeAreNoGradients) {
  for (const float change : {0.01F, 2.0F}) {
    CallEvidence evidence = evidence_of(4, {5e-3, 1e-3});
    ValueSample values{};
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1.0F : -1.0F;
    for (std::size_t call = 0; call < 8; ++call) {
      values[call] += change;
      values[call + 20] -= 2 * change;
      if (call % 2 == 0 && change > 1) {
        for (float& value : values) value = -value;
      }
      evidence.values().note(values);
    }
    EXPECT_EQ(say_gradients(evidence), change > 1);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
