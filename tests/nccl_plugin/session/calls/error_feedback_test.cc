#include "nccl_plugin/session/calls/error_feedback.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
  EXPECT_EQ(positions("AABAABAABAAB"), ".0...2012012");
  // B A B A suggests period 2 at the beginning of each step.
  const std::string step = "BABAA";
  std::string steps;
  for (int i = 0; i < 8; ++i) steps += step;
  const std::string found = positions(steps).substr(30);
  EXPECT_EQ(found, "0123401234");
}

TEST(CallPattern, AChangeOfTheStepIsNoticedAndLearned) {
  // Buckets are rebuilt after the first steps: A B becomes C D E.
  EXPECT_EQ(positions("ABABCDECDECDE"), "...1.....2012");
}

/// After a proof of `step`, other calls, then the step again: at which call of it from then on it
/// is known again, from 1 on; 0: not in what is shown.
std::size_t resumed_after(const std::string& step, const std::string& others, std::size_t steps) {
  CallPattern pattern;
  for (std::size_t i = 0; i < steps; ++i) {
    for (const char name : step) static_cast<void>(pattern.observe(call_of(name)));
  }
  const std::uint64_t id = pattern.cycle().id;
  for (const char name : others) static_cast<void>(pattern.observe(call_of(name)));
  for (std::size_t i = 0; i < 20 * step.size(); ++i) {
    if (!pattern.observe(call_of(step[i % step.size()]))) continue;
    EXPECT_EQ(pattern.cycle().id, id) << step << " " << others;
    return i + 1;
  }
  return 0;
}

TEST(CallPattern, IsBackWithinTwoPeriodsAfterOtherCalls) {
  EXPECT_EQ(resumed_after("A", "X", 100), 2U) << "two calls at least";
  EXPECT_EQ(resumed_after("A", "XYXY", 100), 2U);
  EXPECT_EQ(resumed_after("ABC", "X", 30), 3U);
  EXPECT_EQ(resumed_after("AAB", "X", 10), 3U);
  EXPECT_EQ(resumed_after("ABCD", "EFEFEFEFEFEF", 30), 4U) << "an evaluation";
  EXPECT_EQ(resumed_after("ABCD", "abcd", 30), 4U) << "an odd last batch";
  EXPECT_EQ(resumed_after("ABCD", "ABxy", 30), 4U) << "in the middle of a step";
  // 17 calls are more than the two periods that are asked for would be of a short step.
  EXPECT_EQ(resumed_after("ABCDEFGHIJKLMNOPQ", "x", 3), 17U);
}

TEST(CallPattern, FindsASequenceAgainAmongOthersLikeIt) {
  CallPattern pattern;
  const auto show = [&pattern](const std::string& calls) {
    std::optional<std::size_t> position;
    for (const char name : calls) position = pattern.observe(call_of(name));
    return position ? pattern.cycle().id : 0;
  };
  const std::uint64_t step = show("ABCABCABCABC");
  const std::uint64_t longer = show("ABCDABCDABCDABCD");
  ASSERT_NE(step, 0U);
  ASSERT_NE(longer, 0U);
  ASSERT_NE(step, longer);
  EXPECT_EQ(show("xABC"), 0U) << "either of them";
  EXPECT_EQ(show("D"), longer);
  EXPECT_EQ(show("yABCA"), step);
  EXPECT_EQ(show("zBCDA"), longer) << "from any of its calls on";
}

/// Sequences that have been left are forgotten, the oldest first.
TEST(CallPattern, KnowsOnlySoManySequences) {
  CallPattern pattern;
  std::vector<std::uint64_t> forgotten;
  std::vector<std::uint64_t> ids;
  for (std::size_t i = 0; i < KnownCycles::kMost + 3; ++i) {
    TensorCall call;
    call.count = i + 1;
    for (int n = 0; n < 10; ++n) {
      static_cast<void>(pattern.observe(call));
      forgotten.insert(forgotten.end(), pattern.forgotten().begin(), pattern.forgotten().end());
    }
    ids.push_back(pattern.cycle().id);
  }
  EXPECT_EQ(forgotten, (std::vector<std::uint64_t>{ids[0], ids[1], ids[2]}));
}

RC_GTEST_PROP(CallPattern, GivesEqualPositionsToEqualPlacesOnly, ()) {
  const auto period = *rc::gen::inRange<std::size_t>(1, 12);
  const auto step = *rc::gen::container<std::string>(period, rc::gen::inRange('A', 'E'));
  CallPattern pattern;
  for (int i = 0; i < 6; ++i) {
    for (const char name : step) static_cast<void>(pattern.observe(call_of(name)));
  }
  RC_ASSERT(pattern.cycle().period() > 0U);
  // Locked for good on a period that divides the step.
  const std::size_t locked = pattern.cycle().period();
  std::vector<std::size_t> seen;
  for (int i = 0; i < 2; ++i) {
    for (const char name : step) {
      const auto position = pattern.observe(call_of(name));
      RC_ASSERT(position.has_value());
      seen.push_back(*position);
    }
  }
  RC_ASSERT(pattern.cycle().period() == locked);
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

/// Calls by name: capital letters have memory of their own; small ones are an odd last batch, with
/// other counts in the same memory. None is as small as a stray.
TensorCall named(char name) {
  const auto letter = static_cast<std::uintptr_t>(name >= 'a' ? name - 'a' + 'A' : name);
  return tensor(letter + (name >= 'a' ? 1 : 0), letter << 12);
}

TEST(ErrorFeedback, ResidualsOutliveOtherCalls) {
  for (const std::string others : {"X", "abcd", "XYXYXYXYXYXYXYXYXYXY", "ABXCD", "XABC"}) {
    ErrorFeedback feedback(0);
    const std::string step = "ABCD";
    for (int i = 0; i < 10; ++i) {
      for (const char name : step) {
        if (float* const residual = feedback.find(named(name)).residual) residual[0] = name;
      }
    }
    for (int epoch = 0; epoch < 5; ++epoch) {
      for (const char name : others) feedback.find(named(name));
      for (std::size_t i = 0; i < 40; ++i) {
        const char name = step[i % step.size()];
        const float* const residual = feedback.find(named(name)).residual;
        if (i + 1 < (others == "XABC" ? 8U : 4U)) continue;  // That repeats the step's beginning.
        ASSERT_NE(residual, nullptr) << others << " " << epoch << " " << i;
        ASSERT_EQ(residual[0], name) << others << " " << epoch << " " << i;
      }
    }
  }
}

/// Training and evaluation in turn, always as many steps of each: still two sequences, and a
/// residual a tensor.
TEST(ErrorFeedback, PhasesInTurnAreNoLongerSequence) {
  ErrorFeedback feedback(0);
  for (int epoch = 0; epoch < 8; ++epoch) {
    for (const auto& [step, steps] : {std::pair<std::string, int>{"ABC", 10}, {"XY", 5}}) {
      for (int i = 0; i < steps; ++i) {
        for (const char name : step) {
          float* const residual = feedback.find(named(name)).residual;
          if (epoch == 0) {
            if (residual != nullptr) residual[0] = name;
          } else if (i >= 2) {
            ASSERT_NE(residual, nullptr) << epoch << name;
            ASSERT_EQ(residual[0], name) << epoch;
          }
        }
      }
    }
  }
  EXPECT_EQ(feedback.bytes(), std::size_t{'A' + 'B' + 'C' + 'X' + 'Y'} * sizeof(float));
}

/// Several tensors through one buffer look like one that comes several times.
TEST(ErrorFeedback, TensorsThroughOneBufferKeepTheirResiduals) {
  for (const std::string step : {"AAB", "AAAB", "BABAA", "AABB", "ABABABX"}) {
    ErrorFeedback feedback(0);
    std::size_t found = 0;
    for (int i = 0; i < 12; ++i) {
      for (const std::string others : {i == 6 ? "Z" : "", step.c_str()}) {
        for (std::size_t at = 0; at < others.size(); ++at) {
          float* const residual = feedback.find(named(others[at])).residual;
          if (residual == nullptr || i < 2) continue;
          const float tensor_here = static_cast<float>(at + 1);
          if (residual[0] != 0) {
            ASSERT_EQ(residual[0], tensor_here) << step << i;
            ++found;
          }
          residual[0] = tensor_here;
        }
      }
    }
    EXPECT_GE(found, 8 * step.size()) << step;
  }
}

/// A step of a program; tensors are what no pattern sees.
struct HiddenStep {
  std::string calls;
  int first_tensor = 0;
};

/// Random steps, interruptions of all kinds, and other steps in turn with them.
RC_GTEST_PROP(ErrorFeedback, IsBackWithinTwoPeriodsWithTheTensorsOwn, ()) {
  // Fewer in a row than would prove that they are of one tensor.
  const auto letters = rc::gen::resize(100, rc::gen::inRange('A', 'F'));
  std::vector<HiddenStep> steps;
  for (int i = 0; i < 3; ++i) {
    const auto count = *rc::gen::inRange<std::size_t>(0, CycleRun::kProofCalls);
    const auto calls = *rc::gen::container<std::string>(count, letters);
    steps.push_back({calls + static_cast<char>('P' + i), 100 * (i + 1)});
  }
  ErrorFeedback feedback(0);
  std::set<int> kept;  // Tensors that have a residual.
  const auto run = [&](const HiddenStep& step, std::size_t calls, bool is_known) {
    const std::size_t period = step.calls.size();
    for (std::size_t i = 0; i < calls; ++i) {
      const int hidden = step.first_tensor + static_cast<int>(i % period);
      float* const residual = feedback.find(named(step.calls[i % period])).residual;
      // What comes once a step is not the only thing that is seen of it from its second time on.
      const bool is_certain = i + 1 >= 2 * period;
      if (is_certain) RC_ASSERT(residual != nullptr);
      if (residual == nullptr) continue;
      if (is_certain || is_known) {
        RC_ASSERT(residual[0] == 0 || residual[0] == static_cast<float>(hidden));
        if (is_known && kept.count(hidden) != 0) RC_ASSERT(residual[0] != 0);
        kept.insert(hidden);
      }
      residual[0] = static_cast<float>(hidden);
    }
  };
  for (const HiddenStep& step : steps) {
    run(step, 8 * step.calls.size() + 8, false);
    feedback.find(named('z'));
  }
  for (int turn = 0; turn < 12; ++turn) {
    const auto count = *rc::gen::inRange<std::size_t>(1, 6);
    const auto others = *rc::gen::container<std::string>(count, rc::gen::inRange('h', 'o'));
    for (const char name : others) feedback.find(named(name));
    const auto which = *rc::gen::inRange<std::size_t>(0, steps.size());
    const std::size_t period = steps[which].calls.size();
    run(steps[which], *rc::gen::inRange<std::size_t>(2 * period, 6 * period + 1), true);
  }
}

TEST(ErrorFeedback, AResidualGivesWayToThoseInUseWhereMemoryEnds) {
  class Scarce final : public ResidualMemory {
   public:
    float* allocate(std::size_t count) override {
      if (left_ == 0) return nullptr;
      --left_;
      return host_residual_memory().allocate(count);
    }
    void free(float* memory) override {
      ++left_;
      host_residual_memory().free(memory);
    }

   private:
    std::size_t left_ = 3;
  };
  Scarce memory;
  ErrorFeedback feedback(0, memory);
  for (const std::string step : {"ABC", "XYZ"}) {
    std::size_t found = 0;
    for (int i = 0; i < 10; ++i) {
      for (const char name : step) found += feedback.find(named(name)).residual != nullptr;
    }
    EXPECT_EQ(found, 25U) << step << ": all from the end of the second step on";
  }
}

/// Once that has come as often as is proof, after it was first noticed.
TEST(ErrorFeedback, WithoutStableAddressesShapesDecide) {
  ErrorFeedback feedback(0);
  std::uintptr_t address = 1;
  float* first = nullptr;
  for (int step = 0; step < 8; ++step) {
    float* a = feedback.find(tensor(10, address++)).residual;
    float* b = feedback.find(tensor(20, address++)).residual;
    if (step < 6) continue;
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
  // A call of a codec that has no state, and then one that has.
  EXPECT_EQ(feedback.find(tensor(100, 1), {true, 0}).state, nullptr);
  EXPECT_EQ(feedback.bytes(), 480U);
  EXPECT_EQ(feedback.find(tensor(100, 1), {true, 20}).state->values[7], 3);
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

TEST(ErrorFeedback, AStateIsKnownByItsAddressUntilItsPlaceIs) {
  ErrorFeedback feedback(0);
  // Two tensors by turns, each with its own state from the first call on.
  for (int call = 0; call < 8; ++call) {
    const Kept kept = feedback.find(tensor(100, call % 2 == 0 ? 1 : 2), {true, 2});
    ASSERT_NE(kept.state, nullptr) << call;
    EXPECT_EQ(kept.residual != nullptr, call > 2) << call;
    EXPECT_EQ(kept.state->values[0], static_cast<float>(call / 2)) << call;
    ++kept.state->values[0];
  }
  EXPECT_EQ(feedback.bytes(), 2 * (400U + 8U));
  // What looked like a sequence was none: its residuals go, the states stay.
  ErrorFeedback other(0);
  for (int call = 0; call < 3; ++call) {
    ++other.find(tensor(100, 1), {true, 2}).state->values[0];
  }
  EXPECT_EQ(other.bytes(), 408U);
  static_cast<void>(other.find(tensor(7, 2), {true, 0}));
  EXPECT_EQ(other.bytes(), 8U);
  const Kept kept = other.find(tensor(100, 1), {true, 2});
  EXPECT_EQ(kept.residual, nullptr);
  EXPECT_EQ(kept.state->values[0], 3);
}

TEST(ErrorFeedback, StatesByAddressAreBounded) {
  ErrorFeedback feedback(0);
  for (std::uintptr_t address = 1; address < 5000; ++address) {
    ASSERT_NE(feedback.find(tensor(100, address), {true, 2}).state, nullptr);
  }
  EXPECT_LE(feedback.bytes(), 1024U * 8U);
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
    EXPECT_EQ(feedback.bytes(), with_residual ? 420U : 20U);
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

TEST(ErrorFeedback, ResidualsAreHalvedOnceUntilTheyAreFoundAgain) {
  ErrorFeedback feedback(0);
  Kept first, second;
  for (int i = 0; i < 4; ++i) {
    first = feedback.find(tensor(100, 1));
    second = feedback.find(tensor(50, 2));
  }
  ASSERT_NE(first.residual, nullptr);
  ASSERT_NE(second.residual, nullptr);
  std::fill_n(first.residual, 100, 8.0F);
  std::fill_n(second.residual, 50, 8.0F);
  feedback.halve_residuals();
  feedback.halve_residuals();
  EXPECT_EQ(feedback.find(tensor(100, 1)).residual[99], 4);
  feedback.halve_residuals();
  EXPECT_EQ(first.residual[0], 2);
  EXPECT_EQ(feedback.find(tensor(50, 2)).residual[49], 4) << "it was not found between";
}

}  // namespace
}  // namespace ringpress::nccl_plugin
