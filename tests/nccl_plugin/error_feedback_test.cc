#include "nccl_plugin/error_feedback.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

namespace ringpress::nccl_plugin {
namespace {

TensorCall call_of(char name) {
  TensorCall call;
  call.count = static_cast<std::size_t>(name);
  return call;
}

/// Positions that a pattern gives to a sequence of calls, '.' for none: "..01".
std::string positions(const std::string& calls) {
  CallPattern pattern;
  std::string text;
  for (const char name : calls) {
    const auto position = pattern.observe(call_of(name));
    text += position ? static_cast<char>('0' + *position) : '.';
  }
  return text;
}

TEST(CallPattern, FindsTheShortestRepetition) {
  EXPECT_EQ(positions("AAAA"), ".000");
  EXPECT_EQ(positions("ABABAB"), "...101");
  EXPECT_EQ(positions("ABCABCABC"), ".....2012");
  EXPECT_EQ(positions("ABCDEF"), "......");
}

TEST(CallPattern, ASurpriseMustFitTheNextGuess) {
  // A A suggests period 1; after the surprise B, the true period 3 is found, not 1 again.
  EXPECT_EQ(positions("AABAABAABAAB"), ".0....201201");
  // B A B A suggests period 2 at the beginning of each step.
  const std::string step = "BABAA";
  std::string steps;
  for (int i = 0; i < 8; ++i) steps += step;
  const std::string found = positions(steps).substr(30);
  EXPECT_EQ(found, "1234012340");
}

TEST(CallPattern, AChangeOfTheStepIsNoticedAndLearned) {
  // Buckets are rebuilt after the first steps: A B becomes C D E.
  EXPECT_EQ(positions("ABABCDECDECDE"), "...1.....2012");
}

RC_GTEST_PROP(CallPattern, GivesEqualPositionsToEqualPlacesOnly, ()) {
  const auto period = *rc::gen::inRange<std::size_t>(1, 12);
  const auto step = *rc::gen::container<std::string>(period, rc::gen::inRange('A', 'E'));
  CallPattern pattern;
  for (int i = 0; i < 6; ++i) {
    for (const char name : step) static_cast<void>(pattern.observe(call_of(name)));
  }
  RC_ASSERT(pattern.period() > 0U);
  // Locked for good on a period that divides the step.
  const std::size_t locked = pattern.period();
  std::vector<std::size_t> seen;
  for (int i = 0; i < 2; ++i) {
    for (const char name : step) {
      const auto position = pattern.observe(call_of(name));
      RC_ASSERT(position.has_value());
      seen.push_back(*position);
    }
  }
  RC_ASSERT(pattern.period() == locked);
  for (std::size_t i = 0; i + locked < seen.size(); ++i) RC_ASSERT(seen[i] == seen[i + locked]);
}

TensorCall tensor(std::size_t count, std::uintptr_t address) {
  TensorCall call;
  call.count = count;
  call.address = reinterpret_cast<const void*>(address);
  return call;
}

TEST(ErrorFeedback, KeepsOneResidualPerTensorOfTheStep) {
  ErrorFeedback feedback(0);
  EXPECT_EQ(feedback.find(tensor(100, 1)).residual, nullptr);
  EXPECT_EQ(feedback.find(tensor(100, 2)).residual, nullptr);
  EXPECT_EQ(feedback.find(tensor(100, 1)).residual, nullptr);
  float* second = feedback.find(tensor(100, 2)).residual;
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second[99], 0.0F);
  second[99] = 7;
  float* first = feedback.find(tensor(100, 1)).residual;
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(feedback.find(tensor(100, 2)).residual, second);
  EXPECT_EQ(second[99], 7.0F);
  EXPECT_EQ(feedback.bytes(), 800U);
}

TEST(ErrorFeedback, AChangedStepStartsFromZero) {
  ErrorFeedback feedback(0);
  for (int i = 0; i < 3; ++i) feedback.find(tensor(50, 1));
  feedback.find(tensor(50, 1)).residual[0] = 3;
  EXPECT_EQ(feedback.find(tensor(60, 1)).residual, nullptr);
  EXPECT_EQ(feedback.bytes(), 0U);
  for (int i = 0; i < 4; ++i) feedback.find(tensor(50, 1));
  float* again = feedback.find(tensor(50, 1)).residual;
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again[0], 0.0F);
}

TEST(ErrorFeedback, WithoutStableAddressesShapesDecide) {
  ErrorFeedback feedback(0);
  std::uintptr_t address = 1;
  float* first = nullptr;
  for (int step = 0; step < 4; ++step) {
    float* a = feedback.find(tensor(10, address++)).residual;
    float* b = feedback.find(tensor(20, address++)).residual;
    if (step < 2) continue;
    ASSERT_NE(a, nullptr);
    ASSERT_NE(b, nullptr);
    if (first != nullptr) {
      EXPECT_EQ(a, first);
    }
    first = a;
  }
}

TEST(ErrorFeedback, EqualShapesWithoutStableAddressesGetNone) {
  ErrorFeedback feedback(0);
  for (std::uintptr_t address = 1; address < 20; ++address) {
    EXPECT_EQ(feedback.find(tensor(10, address)).residual, nullptr);
  }
}

TEST(ErrorFeedback, StaysWithinItsLimit) {
  ErrorFeedback feedback(1000);
  for (int step = 0; step < 5; ++step) {
    for (std::uintptr_t address = 1; address <= 4; ++address) {
      feedback.find(tensor(100, address));
      EXPECT_LE(feedback.bytes(), 1000U);
    }
  }
  EXPECT_EQ(feedback.bytes(), 800U);
  ErrorFeedback tight(100);
  tight.find(tensor(100, 1));
  EXPECT_EQ(tight.find(tensor(100, 1)).residual, nullptr);  // 400 bytes never fit.
}

TEST(ErrorFeedback, KeepsAStateBesidesTheResidualOrAlone) {
  ErrorFeedback feedback(0);
  for (int i = 0; i < 3; ++i) feedback.find(tensor(100, 1), {true, 20});
  Kept kept = feedback.find(tensor(100, 1), {true, 20});
  ASSERT_NE(kept.state, nullptr);
  ASSERT_EQ(kept.state->values.size(), 20U);
  EXPECT_EQ(feedback.bytes(), 480U);
  kept.residual[5] = 2;
  kept.state->values[7] = 3;
  kept.state->call = 9;
  kept = feedback.find(tensor(100, 1), {true, 20});
  EXPECT_EQ(kept.residual[5], 2);
  EXPECT_EQ(kept.state->values[7], 3);
  EXPECT_EQ(kept.state->call, 9U);
  // Another size: other layers. It starts anew, the residual stays.
  kept = feedback.find(tensor(100, 1), {true, 30});
  EXPECT_EQ(kept.residual[5], 2);
  EXPECT_EQ(kept.state->values, std::vector<float>(30));
  EXPECT_EQ(kept.state->call, 0U);
  EXPECT_EQ(feedback.bytes(), 520U);
  ErrorFeedback alone(0);
  for (int i = 0; i < 3; ++i) kept = alone.find(tensor(100, 1), {false, 20});
  EXPECT_EQ(kept.residual, nullptr);
  ASSERT_NE(kept.state, nullptr);
  EXPECT_EQ(alone.bytes(), 80U);
}

TEST(ErrorFeedback, KeepsMemoryBesideTheResidualOrAlone) {
  for (const bool with_residual : {true, false}) {
    ErrorFeedback feedback(0);
    const ToKeep wanted{with_residual, 0, 5};
    Kept kept;
    for (int i = 0; i < 3; ++i) kept = feedback.find(tensor(100, 1), wanted);
    ASSERT_NE(kept.memory, nullptr);
    EXPECT_EQ(kept.memory[4], 0);
    EXPECT_EQ(kept.residual != nullptr, with_residual);
    EXPECT_EQ(feedback.bytes(), with_residual ? 656U : 256U) << "the residual is aligned";
    std::fill_n(kept.memory, 5, 7.0F);
    if (with_residual) std::fill_n(kept.residual, 100, 3.0F);
    EXPECT_EQ(feedback.find(tensor(100, 1), wanted).memory[4], 7);
  }
}

TEST(ErrorFeedback, AStateThatNoLongerFitsIsGivenUpAlone) {
  ErrorFeedback feedback(500);
  for (int i = 0; i < 3; ++i) feedback.find(tensor(100, 1), {true, 20});
  const Kept kept = feedback.find(tensor(100, 1), {true, 30});
  EXPECT_NE(kept.residual, nullptr);
  EXPECT_EQ(kept.state, nullptr);
  EXPECT_EQ(feedback.bytes(), 400U);
}

}  // namespace
}  // namespace ringpress::nccl_plugin
