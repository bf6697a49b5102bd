#include "perf/all_reduce/timed_calls.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <limits>
#include <vector>

namespace ringpress::perf {
namespace {

CallStatistics call_of(const char* codec, const char* algorithm = "sra") {
  ringpressStatistics_t statistics = {};
  std::snprintf(statistics.codec, sizeof statistics.codec, "%s", codec);
  std::snprintf(statistics.algorithm, sizeof statistics.algorithm, "%s", algorithm);
  return statistics;
}

CheckResult with_error(double error) {
  CheckResult checked;
  checked.relative_error = error;
  checked.magnitudes.largest_error = 10 * error;
  return checked;
}

std::vector<int> looked_at(int iterations, std::size_t bytes, std::size_t settings) {
  const LookedAt which(iterations, bytes, settings);
  std::vector<int> found;
  for (int i = 0; i < iterations; ++i) {
    if (which.has(i, 1)) found.push_back(i);
  }
  return found;
}

TEST(TimedCalls, TheErrorAndTheCodecAreOfOneCall) {
  SettingCalls found;
  found.worst = with_error(7);  // Of a call that was not timed.
  note_timed_call(with_error(0), call_of("none"), found);
  EXPECT_EQ(found.worst.relative_error, 0);
  EXPECT_STREQ(found.worst_call->codec, "none");
  note_timed_call(with_error(0.2), call_of("q4"), found);
  note_timed_call(with_error(0.1), call_of("q8"), found);
  EXPECT_EQ(found.worst.relative_error, 0.2);
  EXPECT_EQ(found.worst.magnitudes.largest_error, 2);
  EXPECT_STREQ(found.worst_call->codec, "q4");
}

TEST(TimedCalls, WhatIsNoNumberIsTheWorst) {
  SettingCalls found;
  note_timed_call(with_error(std::numeric_limits<double>::quiet_NaN()), call_of("q4"), found);
  note_timed_call(with_error(1), call_of("q8"), found);
  EXPECT_TRUE(is_worse(found.worst.relative_error, 1));
  EXPECT_STREQ(found.worst_call->codec, "q4");
}

TEST(TimedCalls, WrongElementsAndDifferentBytesStay) {
  SettingCalls found;
  CheckResult wrong = with_error(0);
  wrong.wrong_elements = 3;
  wrong.identical = false;
  note_timed_call(wrong, call_of("none"), found);
  note_timed_call(with_error(1), call_of("none"), found);
  EXPECT_EQ(found.worst.wrong_elements, 3);
  EXPECT_FALSE(found.worst.identical);
}

TEST(TimedCalls, TheLastOneIsAlwaysLookedAt) {
  EXPECT_EQ(looked_at(20, 1 << 20, 1), (std::vector<int>{4, 9, 14, 19}));
  EXPECT_EQ(looked_at(3, 1 << 20, 1), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(looked_at(5, std::size_t{1} << 30, 5), (std::vector<int>{4}));
  EXPECT_EQ(LookedAt(5, std::size_t{1} << 30, 5).kept_count(), 0);
  EXPECT_TRUE(LookedAt(20, 1 << 20, 1).has(15, 5));
  EXPECT_FALSE(LookedAt(20, 1 << 20, 1).has(15, 4));
  EXPECT_FALSE(LookedAt(20, 1 << 20, 1).has(-1, 1));
}

TEST(TimedCalls, AskedForCodecsAndAlgorithmsAreCompared) {
  EXPECT_TRUE(goes_as_asked({"", "", ""}, call_of("none")));
  EXPECT_TRUE(goes_as_asked({"", "auto", "auto"}, call_of("q4:block=128", "ring")));
  EXPECT_TRUE(goes_as_asked({"", "q4:block=64", "ring"}, call_of("q4:block=64,x=1", "ring")));
  EXPECT_TRUE(goes_as_asked({"", "q4:x=1,block=64", ""}, call_of("q4:block=64,x=1")));
  EXPECT_TRUE(goes_as_asked({"", "q4", ""}, call_of("q4:block=128,x=1")));
  EXPECT_FALSE(goes_as_asked({"", "q4:block=64", ""}, call_of("q4:block=128,x=1")));
  EXPECT_FALSE(goes_as_asked({"", "q4", ""}, call_of("none")));
  EXPECT_FALSE(goes_as_asked({"", "q4", "ring"}, call_of("q4:block=128", "sra")));
  EXPECT_TRUE(goes_as_asked({"", "q4", "ring"}, std::nullopt));
}

}  // namespace
}  // namespace ringpress::perf
