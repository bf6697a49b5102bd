// In which order calls in streams take turns, and what rank 0 makes of their times.
#include "nccl_plugin/session/tuning/guarded_class.h"

#include <gtest/gtest.h>

#include <set>

namespace ringpress::nccl_plugin::tuning {
namespace {

/// All turns; their slots are those of is_exact_slot().
void take_turns(GuardedClass* calls) {
  std::set<std::size_t> slots;
  for (int number = 0; number < 19; ++number) {
    ASSERT_FALSE(calls->awaits_verdict()) << number;
    ASSERT_FALSE(calls->is_settled()) << number;
    const GuardedStep step = calls->next();
    EXPECT_TRUE(step.is_trial);
    EXPECT_EQ(step.announces, number == 14);
    const bool is_exact = (number >= 4 && number < 7) || (number >= 11 && number < 14);
    EXPECT_EQ(step.is_exact, is_exact) << number;
    if (!step.slot) continue;
    EXPECT_EQ(is_exact_slot(*step.slot), is_exact) << number;
    EXPECT_TRUE(slots.insert(*step.slot).second);
    EXPECT_LT(*step.slot, GuardedClass::kSlots);
  }
  EXPECT_EQ(slots.size(), GuardedClass::kSlots);
  EXPECT_TRUE(calls->awaits_verdict());
}

TEST(GuardedClass, BothWaysTakeTurnsUntilItIsClear) {
  GuardedClass calls;
  for (int round = 0; round < 3; ++round) {
    take_turns(&calls);
    calls.apply(Verdict::kAgain);
  }
  take_turns(&calls);
  calls.apply(Verdict::kExact);
  EXPECT_TRUE(calls.is_settled());
  EXPECT_EQ(calls.settled_verdict(), Verdict::kExact);
}

TEST(GuardedClass, AVerdictHoldsForEverLonger) {
  GuardedClass calls;
  std::uint32_t period = GuardedClass::kFirstPeriod;
  for (int verdict = 0; verdict < 10; ++verdict) {
    take_turns(&calls);
    const bool is_exact = verdict % 2 == 0;
    calls.apply(is_exact ? Verdict::kExact : Verdict::kCompress);
    for (std::uint32_t made = 0; made < period; ++made) {
      ASSERT_TRUE(calls.is_settled()) << made << " of " << period;
      const GuardedStep step = calls.next();
      ASSERT_EQ(step.is_exact, is_exact);
      ASSERT_FALSE(step.is_trial || step.slot || step.announces);
    }
    EXPECT_FALSE(calls.is_settled());
    period = std::min(2 * period, GuardedClass::kLastPeriod);
  }
  EXPECT_EQ(period, GuardedClass::kLastPeriod);
}

Verdict judge_round(GuardJudge* judge, double compressed, double exact) {
  for (int i = 0; i < 6; ++i) judge->note(false, compressed);
  for (int i = 0; i < 4; ++i) judge->note(true, exact);
  return judge->judge();
}

TEST(GuardJudge, WhatIsClearIsSettledAtOnce) {
  GuardJudge judge(0.97);
  EXPECT_EQ(judge_round(&judge, 1, 2), Verdict::kCompress);
  EXPECT_EQ(judge_round(&judge, 2, 1), Verdict::kExact);
  EXPECT_EQ(judge.compressed(), 2);
  EXPECT_EQ(judge.exact(), 1);
}

TEST(GuardJudge, WhatIsNearTakesMoreTurns) {
  for (const auto& [compressed, verdict] :
       {std::pair{0.90, Verdict::kCompress}, {0.98, Verdict::kExact}, {1.1, Verdict::kExact}}) {
    GuardJudge judge(0.97);
    for (int round = 0; round < 3; ++round) {
      EXPECT_EQ(judge_round(&judge, compressed, 1), Verdict::kAgain) << compressed;
    }
    EXPECT_EQ(judge_round(&judge, compressed, 1), verdict) << compressed;
  }
}

TEST(GuardJudge, TwoSlowCallsDoNotCount) {
  GuardJudge judge(0.97);
  judge.note(false, 100);
  judge.note(false, 100);
  EXPECT_EQ(judge_round(&judge, 1, 2), Verdict::kCompress);
}

/// A program that is always ahead of its device.
TEST(GuardJudge, WithoutTimesTheSettingHolds) {
  GuardJudge judge(0.97);
  int rounds = 1;
  Verdict verdict = judge.judge();
  for (; verdict == Verdict::kAgain; ++rounds) verdict = judge.judge();
  EXPECT_EQ(verdict, Verdict::kCompress);
  EXPECT_LE(rounds, 20);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
