// The walk of a call tuner over machines that are made up.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tuner/factory.h"

namespace ringpress {
namespace {

using SecondsOf = std::function<double(const Choice&)>;

Choice choice(std::size_t codec, Algorithm algorithm = Algorithm::kSra) {
  return {codec, algorithm, 0};
}

/// Codec 1 is predicted to be best, then codec 2; without one calls take twice as long.
std::vector<Candidate> candidates() {
  return {{choice(1), 1e-3},
          {choice(2), 1.2e-3},
          {choice(1, Algorithm::kRing), 1.4e-3},
          {choice(0), 2.1e-3},
          {choice(0, Algorithm::kRing), 2.2e-3},
          {choice(3), 5e-3}};
}

struct Walk {
  std::vector<TuningNote> notes;
  Trial settled;
  std::size_t calls = 0;
};

class Machine {
 public:
  explicit Machine(SecondsOf seconds, CallShape shape = {1 << 20, 4}, TuningLimits limits = {})
      : seconds_(std::move(seconds)), tuner_(tuner::make_call_tuner(candidates(), shape, limits)) {}

  CallTuner& tuner() { return *tuner_; }

  Walk walk_until_settled() {
    Walk walk;
    std::vector<TuningNote> notes;
    for (int i = 0; i < 100; ++i) {
      const Trial trial = tuner_->next(&notes);
      walk.notes.insert(walk.notes.end(), notes.begin(), notes.end());
      if (trial.is_settled) {
        walk.settled = trial;
        return walk;
      }
      make_calls(trial);
      walk.calls += trial.calls;
    }
    ADD_FAILURE() << "never settles";
    return walk;
  }

  void make_calls(const Trial& trial) {
    EXPECT_GT(trial.calls, 0u);
    for (std::uint32_t i = 0; i < trial.calls; ++i) tuner_->note(seconds_(trial.choice));
  }

 private:
  SecondsOf seconds_;
  std::unique_ptr<CallTuner> tuner_;
};

bool was_tried(const Walk& walk, const Choice& choice) {
  for (const TuningNote& note : walk.notes) {
    if (note.event == TuningEvent::kTried && note.choice == choice) return true;
  }
  return false;
}

double as_predicted(const Choice& made) {
  for (const Candidate& one : candidates()) {
    if (one.choice.codec == made.codec && one.choice.algorithm == made.algorithm) {
      return one.seconds;
    }
  }
  return 1;
}

TEST(CallTuner, StaysWithThePredictedBestWhereTheModelIsRight) {
  const Walk walk = Machine(as_predicted).walk_until_settled();
  EXPECT_EQ(walk.settled.choice, choice(1));
  EXPECT_TRUE(was_tried(walk, choice(0))) << "whether anything is gained is measured";
  EXPECT_FALSE(was_tried(walk, choice(3))) << "predicted to take five times as long";
  ASSERT_FALSE(walk.notes.empty());
  EXPECT_EQ(walk.notes.back().event, TuningEvent::kSettled);
  EXPECT_EQ(walk.notes.back().choice, choice(1));
}

TEST(CallTuner, FindsWhatMeasuresBest) {
  const Walk walk = Machine([](const Choice& made) {
                      return made.codec == 2 ? 0.8e-3 : as_predicted(made);
                    }).walk_until_settled();
  EXPECT_EQ(walk.settled.choice.codec, 2u);
}

// The no-regret guard: by measured time, not by model.
/// As predicted until it is measured.
TEST(CallTuner, KnowsTheQuickestWayWithoutACodec) {
  Machine by_ring([](const Choice& made) {
    if (!made.is_exact()) return 5e-3;
    return made.algorithm == Algorithm::kRing ? 1e-3 : 2.1e-3;
  });
  EXPECT_EQ(by_ring.tuner().quickest_exact(), choice(0));
  static_cast<void>(by_ring.walk_until_settled());
  EXPECT_EQ(by_ring.tuner().quickest_exact(), choice(0, Algorithm::kRing));
  Machine codecs(as_predicted);
  EXPECT_EQ(codecs.walk_until_settled().settled.choice, choice(1));
  EXPECT_EQ(codecs.tuner().quickest_exact(), choice(0));
}

TEST(CallTuner, NoCodecThatDoesNotBeatPlain) {
  const auto flat = [](const Choice&) { return 1e-3; };
  EXPECT_TRUE(Machine(flat).walk_until_settled().settled.choice.is_exact());
  const auto slow = [](const Choice& made) { return made.is_exact() ? 0.9e-3 : 1e-3; };
  EXPECT_TRUE(Machine(slow).walk_until_settled().settled.choice.is_exact());
  const auto hardly = [](const Choice& made) { return made.is_exact() ? 1.01e-3 : 1e-3; };
  EXPECT_TRUE(Machine(hardly).walk_until_settled().settled.choice.is_exact());
  const auto fast = [](const Choice& made) { return made.is_exact() ? 1.1e-3 : 1e-3; };
  EXPECT_FALSE(Machine(fast).walk_until_settled().settled.choice.is_exact());
}

TEST(CallTuner, LongExactCallsBeforeItCountAsMeasured) {
  const auto machine = [](double scale, double exact_seconds) {
    Machine made([scale](const Choice& choice) { return scale * as_predicted(choice); });
    made.tuner().note_exact(100);  // Connects.
    made.tuner().note_exact(exact_seconds);
    return made.walk_until_settled();
  };
  const Walk slow = machine(40, 84e-3);
  EXPECT_FALSE(was_tried(slow, choice(0)));
  EXPECT_FALSE(slow.settled.choice.is_exact());
  EXPECT_TRUE(was_tried(machine(40, 60e-3), choice(0))) << "too near";
  EXPECT_TRUE(was_tried(machine(8, 500e-3), choice(0))) << "a rank was late";
  // Short ones were slow as they were the first.
  EXPECT_TRUE(was_tried(machine(1, 5e-3), choice(0)));
}

// Whatever else the machine does while one of them is measured.
TEST(CallTuner, NoCodecAndTheBestOneAreComparedAgainWhenTheyAreNear) {
  std::size_t exact_calls = 0;
  Machine machine([&](const Choice& made) {
    if (!made.is_exact()) return 1e-3;
    return ++exact_calls <= 13 ? 1.2e-3 : 0.9e-3;
  });
  EXPECT_TRUE(machine.walk_until_settled().settled.choice.is_exact());
}

/// What is quickest had its first trial while the machine did something else.
TEST(CallTuner, WhatComesNearIsTriedAgain) {
  int trials_of_best = 0;
  Trial last;
  Machine machine(as_predicted);
  std::vector<TuningNote> notes;
  for (int i = 0; i < 40 && !last.is_settled; ++i) {
    last = machine.tuner().next(&notes);
    if (last.is_settled) break;
    const bool is_disturbed = last.choice == choice(1) && ++trials_of_best == 1;
    for (std::uint32_t call = 0; call < last.calls; ++call) {
      machine.tuner().note(as_predicted(last.choice) * (is_disturbed ? 1.25 : 1) *
                           (last.choice.chunk_bytes == 0 ? 1 : 1.1));
    }
  }
  EXPECT_EQ(last.choice, choice(1));
  EXPECT_GE(trials_of_best, 2);
}

TEST(CallTuner, WalksToTheBestChunks) {
  const auto best_at_2m = [](const Choice& made) {
    if (made.is_exact()) return 10.0;
    if (made.chunk_bytes == 0) return 3.0;
    const double octaves = std::log2(static_cast<double>(made.chunk_bytes) / (2 << 20));
    return 2 + 0.2 * std::abs(octaves);
  };
  const Walk walk = Machine(best_at_2m, {std::size_t{1} << 28, 4}).walk_until_settled();
  EXPECT_EQ(walk.settled.choice.chunk_bytes, std::size_t{2} << 20);
}

TEST(CallTuner, KeepsWithinItsBudget) {
  TuningLimits limits;
  limits.trials = 4;
  limits.rematches = 2;
  double seconds = 1;
  const auto ever_quicker = [&seconds](const Choice&) { return seconds *= 0.99; };
  const Walk walk = Machine(ever_quicker, {std::size_t{1} << 28, 4}, limits).walk_until_settled();
  EXPECT_EQ(walk.notes.size(), 4u + 2u + 1u);
  EXPECT_LE(walk.calls, 4u * (limits.warm_up_calls + limits.calls) +
                            2u * (limits.rematch_warm_up_calls + limits.rematch_calls));
}

/// However few trials there may be, a codec is not taken that no codec was not compared with.
TEST(CallTuner, NoCodecIsTriedInAnyCase) {
  for (std::uint32_t trials = 1; trials <= 4; ++trials) {
    TuningLimits few;
    few.trials = trials;
    Machine machine([](const Choice& made) { return made.is_exact() ? 0.5e-3 : 1e-3; },
                    {1 << 20, 4}, few);
    const Walk walk = machine.walk_until_settled();
    EXPECT_TRUE(was_tried(walk, choice(0))) << trials;
    EXPECT_TRUE(walk.settled.choice.is_exact()) << trials;
  }
}

TEST(CallTuner, SettlesHoweverLittleMayBeTried) {
  TuningLimits no_calls, no_trials, no_long_calls, nothing;
  no_calls.calls = no_calls.warm_up_calls = 0;
  no_trials.trials = 0;
  no_long_calls.rematch_calls = no_long_calls.rematch_warm_up_calls = 0;
  nothing = no_calls;
  nothing.trials = nothing.rematches = 0;
  for (const TuningLimits& limits : {no_calls, no_trials, no_long_calls, nothing}) {
    Machine machine(as_predicted, {1 << 20, 4}, limits);
    const Walk walk = machine.walk_until_settled();
    EXPECT_EQ(walk.settled.choice, choice(1));
    EXPECT_GT(walk.settled.calls, 0u);
    machine.make_calls(walk.settled);  // As long as was predicted: nothing begins anew.
    EXPECT_TRUE(machine.walk_until_settled().notes.empty());
  }
}

// Ten of them would take minutes. How slow they are, the calls before have shown.
TEST(CallTuner, MakesFewSlowCalls) {
  Machine machine([](const Choice& made) { return 4000 * as_predicted(made); });
  machine.tuner().note_exact(8);
  machine.tuner().note_exact(8);
  const Walk walk = machine.walk_until_settled();
  EXPECT_GE(walk.notes.size(), 2u);
  for (const TuningNote& note : walk.notes) EXPECT_LE(note.calls, 2u);
}

TEST(CallTuner, WarmUpDoesNotCount) {
  std::uint32_t calls = 0;
  Choice last = choice(9);
  const auto slow_at_first = [&](const Choice& made) {
    calls = made == last ? calls + 1 : 0;
    last = made;
    return calls < 3 && made.codec == 1 ? 1.0 : as_predicted(made);
  };
  EXPECT_EQ(Machine(slow_at_first).walk_until_settled().settled.choice.codec, 1u);
}

TEST(CallTuner, CallsOfWhichEveryFourthWaitsTakeMoreThanMostOfThemDo) {
  // As where a link lets the first of some calls through at once and the last one wait.
  int exact_calls = 0;
  const auto seconds = [&exact_calls](const Choice& made) {
    if (!made.is_exact()) return made.codec == 1 ? 0.95e-3 : 5e-3;
    return ++exact_calls % 4 == 0 ? 2.4e-3 : 0.9e-3;
  };
  EXPECT_EQ(Machine(seconds).walk_until_settled().settled.choice, choice(1));
}

// As of a link that lets so much through at once after each pause.
TEST(CallTuner, WhatIsQuickAtFirstAloneIsNotTaken) {
  int exact_calls_in_a_row = 0;
  const auto seconds = [&exact_calls_in_a_row](const Choice& made) {
    exact_calls_in_a_row = made.is_exact() ? exact_calls_in_a_row + 1 : 0;
    if (!made.is_exact()) return made.codec == 1 ? 1e-3 : 5e-3;
    return exact_calls_in_a_row <= 15 ? 0.8e-3 : 1.3e-3;
  };
  EXPECT_EQ(Machine(seconds).walk_until_settled().settled.choice, choice(1));
}

TEST(CallTuner, ACallThatTheMachineInterruptsDoesNotCount) {
  int calls = 0;
  const auto seconds = [&calls](const Choice& made) {
    const bool is_interrupted = made == choice(1) && ++calls % 10 == 0;
    return is_interrupted ? 1 : as_predicted(made);
  };
  EXPECT_EQ(Machine(seconds).walk_until_settled().settled.choice, choice(1));
}

// A codec that was measured at a bad time comes to its right, and so does no codec.
TEST(CallTuner, LooksAgainAtWhatDidNotWin) {
  for (const bool codec_is_better : {true, false}) {
    std::size_t calls = 0;
    Machine machine([&](const Choice& made) {
      const bool is_bad_time = ++calls < 300;
      return made.is_exact() == (codec_is_better != is_bad_time) ? 1e-3 : 0.2e-3;
    });
    Trial trial = machine.walk_until_settled().settled;
    EXPECT_EQ(trial.choice.is_exact(), codec_is_better);
    std::vector<TuningNote> notes;
    for (int i = 0; i < 40; ++i) {
      machine.make_calls(trial);
      trial = machine.tuner().next(&notes);
    }
    EXPECT_EQ(trial.choice.is_exact(), !codec_is_better);
  }
}

// What took much longer once gets another trial all the same, if a late one: the settled one, whose
// time is its codec's, shows nothing of a link that has become quicker.
TEST(CallTuner, LooksAgainAtWhatWasHopeless) {
  bool is_quick = false;
  std::size_t late_trials = 0;
  Machine machine([&](const Choice& made) {
    if (!made.is_exact()) return 1e-3;
    late_trials += is_quick ? 1 : 0;
    return is_quick ? 0.3e-3 : 6e-3;
  });
  Trial trial = machine.walk_until_settled().settled;
  EXPECT_FALSE(trial.choice.is_exact());
  is_quick = true;
  std::vector<TuningNote> notes;
  int looks = 0;
  for (; looks < 200 && !(trial.is_settled && trial.choice.is_exact()); ++looks) {
    machine.make_calls(trial);
    trial = machine.tuner().next(&notes);
    if (looks == 20) {
      EXPECT_EQ(late_trials, 0u) << "not as soon as others";
    }
  }
  EXPECT_TRUE(trial.choice.is_exact());
}

// Where nothing may be tried, calls go on as they were predicted to be best, however long they
// take.
TEST(CallTuner, AGuessDoesNotDrift) {
  TuningLimits nothing;
  nothing.trials = nothing.rematches = 0;
  Machine machine([](const Choice& made) { return 3 * as_predicted(made); }, {1 << 20, 4}, nothing);
  Trial trial = machine.walk_until_settled().settled;
  std::vector<TuningNote> notes;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(trial.choice, choice(1));
    machine.make_calls(trial);
    trial = machine.tuner().next(&notes);
    EXPECT_TRUE(notes.empty() || notes[0].event != TuningEvent::kDrifted) << i;
  }
}

// The same link, twenty times slower: what the model thought hopeless is best.
TEST(CallTuner, IsNotLedByTheModelWhenThatIsOld) {
  double slowness = 1;
  Machine machine([&](const Choice& made) {
    return made.is_exact() ? slowness * 1e-3 : 2e-3 + (made.codec == 3 ? 0 : slowness * 0.5e-3);
  });
  Trial trial = machine.walk_until_settled().settled;
  EXPECT_TRUE(trial.choice.is_exact());
  slowness = 20;
  std::vector<TuningNote> notes;
  for (int i = 0; i < 100; ++i) {
    machine.make_calls(trial);
    trial = machine.tuner().next(&notes);
  }
  EXPECT_EQ(trial.choice.codec, 3u);
}

TEST(CallTuner, BeginsAnewWhenCallsGoOnTakingLonger) {
  double load = 1;
  std::size_t best = 1;
  Machine machine([&](const Choice& made) {
    return load * (made.codec == best ? 0.5e-3 : as_predicted(made));
  });
  Trial settled = machine.walk_until_settled().settled;
  EXPECT_EQ(settled.choice.codec, 1u);
  std::vector<TuningNote> notes;
  // Once longer, then as before: nothing happens.
  for (const double now : {3.0, 1.0, 1.2}) {
    load = now;
    machine.make_calls(settled);
    settled = machine.tuner().next(&notes);
    EXPECT_TRUE(settled.is_settled);
    EXPECT_TRUE(notes.empty());
  }
  load = 3;
  best = 2;
  machine.make_calls(settled);
  EXPECT_TRUE(machine.tuner().next(&notes).is_settled);
  machine.make_calls(settled);
  const Trial trial = machine.tuner().next(&notes);
  EXPECT_FALSE(trial.is_settled);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].event, TuningEvent::kDrifted);
  machine.make_calls(trial);
  EXPECT_EQ(machine.walk_until_settled().settled.choice.codec, 2u);
}

TEST(CallTuner, CallsThatTakeNothingDoNotChange) {
  Machine machine([](const Choice&) { return 0.0; });
  Trial trial = machine.walk_until_settled().settled;
  EXPECT_TRUE(trial.choice.is_exact());
  std::vector<TuningNote> notes;
  for (int i = 0; i < 3; ++i) {
    machine.make_calls(trial);
    trial = machine.tuner().next(&notes);
    EXPECT_TRUE(trial.is_settled);
    EXPECT_TRUE(notes.empty());
  }
}

Calibration slow_link() {
  return {{50e-6, 125e6},
          {{"none", 1, 0, {}, {}, {0, 1e-10}},
           {"small", 0.125, 0.1, {50e-6, 2e-10}, {50e-6, 1e-10}, {50e-6, 4e-10}}}};
}

// It would lose more than one encoding does.
TEST(Candidates, NoCodecGoesRoundARingUnlessAskedTo) {
  for (const int world : {2, 4}) {
    std::size_t rings = 0;
    const auto found = tuner::find_candidates({1 << 20, world}, slow_link()).value();
    for (const Candidate& one : found) {
      rings += one.choice.algorithm == Algorithm::kRing;
      EXPECT_TRUE(one.choice.is_exact() || one.choice.algorithm == Algorithm::kSra);
    }
    EXPECT_EQ(rings, world == 2 ? 0u : 1u);
  }
  const auto asked = tuner::find_candidates_by(Algorithm::kRing, {1 << 20, 4}, slow_link()).value();
  ASSERT_EQ(asked.size(), 2u);
  for (const Candidate& one : asked) EXPECT_EQ(one.choice.algorithm, Algorithm::kRing);
}

}  // namespace
}  // namespace ringpress
