#include "nccl_plugin/session/calls/call_evidence.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace ringpress::nccl_plugin {
namespace {

const void* block(std::size_t number) {
  return reinterpret_cast<const void*>((number + 1) << 20);
}

/// So many steps of calls from blocks 0 to `period` - 1, with these pauses before them.
CallEvidence evidence_of(std::size_t steps, const std::vector<double>& pauses,
                         double call_seconds = 1e-3, bool has_many_sizes = false) {
  CallEvidence evidence;
  evidence.begin_steps(pauses.size(), has_many_sizes);
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < pauses.size(); ++i) {
      evidence.note({block(i), pauses[i], call_seconds});
    }
  }
  return evidence;
}

TEST(CallEvidence, NeedsTwoStepsAndSixCalls) {
  EXPECT_FALSE(evidence_of(2, {5e-3, 1e-3}).looks_like_gradients());
  EXPECT_TRUE(evidence_of(3, {5e-3, 1e-3}).looks_like_gradients());
  EXPECT_FALSE(evidence_of(1, {5e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3}).looks_like_gradients());
}

TEST(CallEvidence, OnePauseOfAStepIsLong) {
  EXPECT_TRUE(evidence_of(4, {4e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3}).looks_like_gradients());
  EXPECT_FALSE(evidence_of(4, {1e-3, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3}).looks_like_gradients());
}

TEST(CallEvidence, CallsWithoutPausesAreTaken) {
  EXPECT_TRUE(evidence_of(4, {1e-5, 1e-5, 1e-5}).looks_like_gradients());
  EXPECT_TRUE(evidence_of(6, {1e-5}).looks_like_gradients());
}

TEST(CallEvidence, EqualCallsTakeLongerToBeTaken) {
  EXPECT_FALSE(evidence_of(100, {5e-3}).looks_like_gradients());
  EXPECT_TRUE(evidence_of(CallEvidence::kEqualCalls, {5e-3}).looks_like_gradients());
}

TEST(CallEvidence, UnevenPausesBetweenEqualCallsAreOfLayers) {
  CallEvidence evidence;
  evidence.begin_steps(1, false);
  for (std::size_t i = 0; i < 2 * CallEvidence::kEqualCalls; ++i) {
    evidence.note({block(0), i / 10 % 2 == 0 ? 1e-3 : 2e-3, 1e-3});
  }
  EXPECT_FALSE(evidence.looks_like_gradients());
}

TEST(CallEvidence, EachCallHasABufferOfItsOwn) {
  CallEvidence anew, shared;
  anew.begin_steps(2, false);
  shared.begin_steps(2, false);
  for (std::size_t i = 0; i < 20; ++i) {
    const double pause = i % 2 == 0 ? 5e-3 : 1e-3;
    anew.note({block(i), pause, 1e-3});
    shared.note({block(0), pause, 1e-3});
  }
  EXPECT_FALSE(anew.looks_like_gradients());
  EXPECT_FALSE(shared.looks_like_gradients());
}

/// Over a slow link calls take long; layers still compute between them.
TEST(CallEvidence, ShortPausesBetweenLongCallsArePauses) {
  EXPECT_FALSE(evidence_of(4, {1e-3, 1e-3, 1e-3, 1e-3, 1e-3}, 1).looks_like_gradients());
  EXPECT_TRUE(evidence_of(4, {9e-3, 1e-3, 1e-3, 1e-3, 1e-3}, 1).looks_like_gradients());
}

TEST(CallEvidence, WithoutPausesThatAreKnownManySizesAreNeeded) {
  EXPECT_FALSE(evidence_of(10, {-1, -1}).looks_like_gradients());
  EXPECT_TRUE(evidence_of(10, {-1, -1, -1}, 1e-3, true).looks_like_gradients());
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
    EXPECT_EQ(evidence.looks_like_gradients(), change > 1);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin
