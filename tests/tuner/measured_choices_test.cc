#include "tuner/measured_choices.h"

#include <gtest/gtest.h>

namespace ringpress::tuner {
namespace {

Choice codec(std::size_t number, std::size_t chunk_bytes = 0) {
  return {number, Algorithm::kSra, chunk_bytes};
}

Measured trial(std::size_t number, double seconds, bool is_long = false) {
  return {codec(number), seconds, is_long};
}

TEST(TypicalSeconds, LeavesTheSlowestTenthOut) {
  EXPECT_DOUBLE_EQ(typical_seconds({3}), 3);
  EXPECT_DOUBLE_EQ(typical_seconds({3, 1}), 2);
  EXPECT_DOUBLE_EQ(typical_seconds({3, 1, 2}), 1.5);
  EXPECT_DOUBLE_EQ(typical_seconds({1, 90, 2, 1, 1, 5, 1, 1, 5, 1}), 2);
  EXPECT_DOUBLE_EQ(typical_seconds({1, 90, 2, 1, 1, 5, 1, 1, 5, 1, 80}), 2);
}

TEST(MeasuredChoices, TheQuickestTrialCounts) {
  MeasuredChoices measured(0.97);
  EXPECT_FALSE(measured.has(codec(1)));
  measured.add(trial(1, 3));
  measured.add(trial(1, 2));
  EXPECT_TRUE(measured.has(codec(1)));
  const Measured& known = measured.add(trial(1, 4));
  EXPECT_EQ(known.seconds, 2);
  EXPECT_EQ(known.trials, 3u);
}

TEST(MeasuredChoices, ALongTrialSaysMoreThanShortOnes) {
  MeasuredChoices measured(0.97);
  measured.add(trial(1, 2));
  EXPECT_EQ(measured.add(trial(1, 5, true)).seconds, 5);
  EXPECT_EQ(measured.add(trial(1, 1)).seconds, 5);
  EXPECT_EQ(measured.add(trial(1, 4, true)).seconds, 4);
  EXPECT_EQ(measured.add(trial(1, 6, true)).seconds, 4);
}

TEST(MeasuredChoices, WhatWasTriedFirstIsLeftOnlyForWhatIsClearlyQuicker) {
  MeasuredChoices measured(0.97);
  measured.add(trial(1, 1));
  measured.add(trial(2, 0.98));
  measured.add(trial(0, 0.1));
  EXPECT_EQ(measured.find_quickest(false)->choice, codec(1));
  EXPECT_EQ(measured.find_quickest(true)->seconds, 0.1);
  measured.add(trial(3, 0.9));
  EXPECT_EQ(measured.find_quickest(false)->choice, codec(3));
  measured.clear();
  EXPECT_FALSE(measured.find_quickest(false));
}

TEST(MeasuredChoices, OfCodecsWithLongTrialsTheQuickestIsTaken) {
  MeasuredChoices measured(0.97);
  measured.add(trial(1, 1));
  measured.add(trial(2, 2));
  EXPECT_EQ(measured.find_quickest_long()->choice, codec(1)) << "none was tried for long";
  measured.add(trial(2, 3, true));
  measured.add(trial(0, 1, true));
  EXPECT_EQ(measured.find_quickest_long()->choice, codec(2));
  measured.add(trial(1, 2.95, true));
  EXPECT_EQ(measured.find_quickest_long()->choice, codec(1));
}

TEST(MeasuredChoices, RivalsHaveThreeTrialsEach) {
  MeasuredChoices measured(0.97);
  measured.add(trial(0, 1));
  measured.add(trial(1, 1));
  EXPECT_FALSE(measured.find_contender()) << "it has no rival";
  measured.add(trial(2, 1.2));
  measured.add(trial(3, 1.4));
  for (const std::size_t expected : {1, 2, 1, 2}) {
    const auto contender = measured.find_contender();
    ASSERT_TRUE(contender);
    EXPECT_EQ(*contender, codec(expected));
    measured.add(trial(expected, 1.1));
  }
  EXPECT_FALSE(measured.find_contender());
  // Longer ones count, too.
  measured.add(trial(1, 1, true));
  measured.add(trial(2, 1, true));
  EXPECT_FALSE(measured.find_contender());
}

}  // namespace
}  // namespace ringpress::tuner
