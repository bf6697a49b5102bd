// Levels for calls of a step and their parts: the same on all ranks, fewer bytes, no more error.
#include "nccl_plugin/session/tuning/step_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/decision_chain.h"
#include "ringpress/internal/hash.h"
#include "tests/support/random_tensor.h"
#include "tests/support/thread_peers.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

using testing::run_peers;
using testing::ThreadPeers;
using Environment = std::vector<std::pair<std::string, std::string>>;

/// A call of a step: how many values, how large they are, and what is known of them.
struct StepCall {
  std::size_t count = 0;
  float scale = 1;
  std::vector<Layer> layers;
  bool has_hot_rows = false;  // An embedding's, of words that came in this step.
};

const std::vector<StepCall> kStep{{20000, 1, {}}, {30000, 0.01f, {}}, {40000, 1e-4f, {}}};

Settings adjusting(Environment environment) {
  const bool is_given = std::any_of(environment.begin(), environment.end(), [](const auto& one) {
    return one.first == "RINGPRESS_ADJUST_STEPS";
  });
  if (!is_given) environment.emplace_back("RINGPRESS_ADJUST_STEPS", "5");
  return parse_settings(environment, nullptr);
}

constexpr std::size_t kRow = 256;

/// Each quarter a tenth as large as the one before it.
std::vector<float> values_of(const StepCall& call, int rank) {
  thread_local std::map<std::pair<std::size_t, int>, std::vector<float>> drawn;
  std::vector<float>& known = drawn[{call.count, rank}];
  if (known.empty()) known = testing::random_gradient(call.count, call.count, rank);
  std::vector<float> values = known;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= call.scale * std::pow(0.1f, static_cast<float>(4 * i / call.count));
    // Other words on other ranks; some came on all.
    const std::size_t row = i / kRow;
    const auto word = mix_bits(row + 1000 * static_cast<std::size_t>(rank)) % 24;
    if (call.has_hot_rows && word != 0 && mix_bits(row) % 48 != 0) values[i] *= 0.02f;
  }
  return values;
}

std::vector<float> sum_of(const StepCall& call, int ranks) {
  std::vector<float> sum(call.count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> values = values_of(call, rank);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
  return sum;
}

/// A call as it was made.
struct MadeCall {
  std::string codec;
  std::vector<LeveledPart> parts;

  bool operator==(const MadeCall&) const = default;
};

/// One rank's steps.
class Steps {
 public:
  explicit Steps(ThreadPeers& peers, const Environment& environment = {})
      : settings_(adjusting(environment)),
        peers_(peers),
        levels_(settings_, peers, make_level_family(settings_)) {}

  StepLevels& levels() { return levels_; }
  /// So many buffers of each size are there, and calls take turns in them.
  void take_turns(std::size_t buffers) { turns_ = buffers; }

  std::vector<MadeCall> make(const std::vector<StepCall>& step, float poison = 0) {
    std::vector<MadeCall> made;
    for (const StepCall& call : step) {
      PlanRequest request;
      request.count = call.count;
      Decision decision;
      decision.codec = usual_codec(settings_);
      const Status status = levels_.choose(request, decision);
      EXPECT_TRUE(status.is_ok()) << status.message();
      decision = follow_level(levels_.codec(), decision);
      made.push_back(
          {std::string(decision.codec), {levels_.parts().begin(), levels_.parts().end()}});
      if (!levels_.wants_values()) continue;
      std::vector<float>& values = buffers_[{call.count, turn_++ % turns_}];
      const std::vector<float> drawn = values_of(call, peers_.rank());
      values.assign(drawn.begin(), drawn.end());  // Which leaves it where it is.
      values[7] += poison;
      levels_.take({values.data(), nullptr, call.count, DType::kFloat32}, call.layers);
    }
    return made;
  }

 private:
  const Settings settings_;
  ThreadPeers& peers_;
  StepLevels levels_;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<float>> buffers_;  // By size and turn.
  std::size_t turns_ = 1;
  std::size_t turn_ = 0;
};

/// What a call loses at such levels, of all ranks' values and again of their sum; what is sent.
struct Loss {
  double squares = 0;
  double norms = 0;  // Of the parts, added up.
  double bytes = 0;
};

Loss loss_of(const LevelFamily& family, const StepCall& call, const LeveledCall& levels,
             int ranks) {
  std::vector<std::vector<float>> encoded{sum_of(call, ranks)};
  for (int rank = 0; rank < ranks; ++rank) encoded.push_back(values_of(call, rank));
  Loss loss;
  std::size_t first = 0;
  for (const LeveledPart& part : levels) {
    double squares = 0;
    for (const std::vector<float>& values : encoded) {
      const MeasuredTensor tensor{values.data() + first, nullptr, part.end - first,
                                  DType::kFloat32};
      squares += std::pow(family.measure(tensor, {})[part.level].of_call(), 2);
    }
    loss.squares += squares;
    loss.norms += std::sqrt(squares);
    loss.bytes += family.bytes(part.level, part.end - first);
    first = part.end;
  }
  return loss;
}

/// The same parts, all at one level.
LeveledCall at_level(const LeveledCall& call, std::size_t level) {
  LeveledCall all = call;
  for (LeveledPart& part : all) part.level = level;
  return all;
}

// What the sum loses is not measured but estimated.
constexpr double kAboutOne = 1.1;

/// What is sent and lost, over what the budget's level makes of it. Levels belong to places of the
/// pattern, whose first is some call of the step, the same on all ranks.
struct Shares {
  double bytes = 0;
  double squares = 0;
  double norms = 0;
};

Shares shares_of(const StepLevels& levels, const std::vector<StepCall>& step, int ranks) {
  const std::size_t shift = [&] {
    std::size_t found = 0;
    while (levels.levels()[0].back().end != step[found].count) ++found;
    return found;
  }();
  Loss own, usual;
  for (std::size_t i = 0; i < step.size(); ++i) {
    const StepCall& call = step[(i + shift) % step.size()];
    const LevelFamily& family = levels.family();
    const LeveledCall& found = levels.levels()[i];
    const Loss with = loss_of(family, call, found, ranks);
    const Loss without = loss_of(family, call, at_level(found, family.default_level()), ranks);
    own.bytes += with.bytes, usual.bytes += without.bytes;
    own.squares += with.squares, usual.squares += without.squares;
    own.norms += with.norms, usual.norms += without.norms;
  }
  return {own.bytes / usual.bytes, own.squares / usual.squares, own.norms / usual.norms};
}

Shares shares_with(const Environment& environment, const std::vector<StepCall>& step = kStep) {
  Shares shares;
  run_peers(2, [&](ThreadPeers& peers) {
    Steps steps(peers, environment);
    for (int i = 0; i < 8; ++i) steps.make(step);
    ASSERT_EQ(steps.levels().levels().size(), step.size());
    if (peers.rank() == 0) shares = shares_of(steps.levels(), step, 2);
  });
  return shares;
}

TEST(StepLevels, SendFewerBytesAtNoMoreError) {
  constexpr int kRanks = 3;
  std::vector<std::vector<LeveledCall>> found(kRanks);
  Shares shares;
  run_peers(kRanks, [&](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(kStep);
    found[static_cast<std::size_t>(peers.rank())] = steps.levels().levels();
    if (peers.rank() == 0) shares = shares_of(steps.levels(), kStep, kRanks);
  });
  EXPECT_TRUE(found[1] == found[0]);
  EXPECT_TRUE(found[2] == found[0]);
  ASSERT_EQ(found[0].size(), kStep.size());
  EXPECT_LE(shares.squares, kAboutOne);
  EXPECT_LT(shares.bytes, 0.75);
}

// A sample of one tile in sixteen says little of segments with a few large rows.
TEST(StepLevels, RowsOfAnEmbeddingKeepTheBudget) {
  for (const char* const grids : {"uniform", "both"}) {
    const Shares shares = shares_with({{"RINGPRESS_ADJUST_GRIDS", grids}}, {{500000, 1, {}, true}});
    EXPECT_LE(std::sqrt(shares.squares), 1.05) << grids;
    EXPECT_LT(shares.bytes, 0.75) << grids;
  }
}

TEST(StepLevels, TheBudgetIsAlphaInTheMetric) {
  const Shares squared = shares_with({});
  const Shares norms = shares_with({{"RINGPRESS_ADJUST_METRIC", "l2"}});
  EXPECT_LE(norms.norms, kAboutOne);
  EXPECT_GT(squared.norms, norms.norms);
  const Shares half = shares_with({{"RINGPRESS_ADJUST_ALPHA", "0.5"}});
  EXPECT_LE(half.squares, 0.5 * kAboutOne);
  EXPECT_GT(half.bytes, squared.bytes);
  EXPECT_LT(shares_with({{"RINGPRESS_ADJUST_ALPHA", "4"}}).bytes, squared.bytes);
}

TEST(StepLevels, BothGridsSendFewerBytesThanOne) {
  const Shares both = shares_with({{"RINGPRESS_ADJUST_GRIDS", "both"}});
  EXPECT_LE(both.squares, kAboutOne);
  EXPECT_LT(both.bytes, 0.95 * shares_with({}).bytes);
}

TEST(StepLevels, GiveDensitiesToCalls) {
  const Shares shares = shares_with({{"RINGPRESS_CODEC", "topk:density=0.05"}});
  EXPECT_LE(shares.squares, kAboutOne);
  EXPECT_LT(shares.bytes, 0.85);
}

// The second call is so small that it hardly counts.
TEST(StepLevels, GiveRanksToCalls) {
  const Shares shares =
      shares_with({{"RINGPRESS_CODEC", "powersgd:rank=4"}}, {{40000, 1, {}}, {90000, 1e-3f, {}}});
  EXPECT_LE(shares.squares, kAboutOne);
  EXPECT_LT(shares.bytes, 0.9);
}

// Segments show what a level for each call would not.
TEST(StepLevels, PartsOfACallHaveLevelsOfTheirOwn) {
  const std::vector<StepCall> step{{40000, 1, {}}, {48000, 1, {}}};
  const Shares parts = shares_with({}, step);
  const Shares calls = shares_with({{"RINGPRESS_ALGO", "ring"}}, step);
  EXPECT_LT(parts.bytes, 0.8);
  EXPECT_GT(calls.bytes, 0.95);
}

/// Without addresses they look like one tensor, whose values change from step to step.
TEST(StepLevels, TensorsOfOneSizeInARowHaveNone) {
  for (const std::size_t tensors : {1u, 4u}) {
    run_peers(2, [&](ThreadPeers& peers) {
      Steps steps(peers);
      // One rank sees it, and all do the same.
      if (peers.rank() == 1) steps.take_turns(tensors);
      bool has_parts = false;
      for (int call = 0; call < 40; ++call) {
        has_parts = has_parts || !steps.make({{200000, 1, {}}})[0].parts.empty();
      }
      EXPECT_EQ(has_parts, tensors == 1) << tensors << " tensors";
    });
  }
}

TEST(StepLevels, HintedLayersAreTheParts) {
  run_peers(2, [](ThreadPeers& peers) {
    const std::vector<StepCall> step{
        {40960, 1, {{0, 10240, 0, 0}, {10240, 10240, 0, 0}, {20480, 20480, 0, 0}}}, {30000, 1, {}}};
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(step);
    const std::vector<MadeCall> made = steps.make(step);
    EXPECT_EQ(made[0].codec, "q4");
    // The two smaller ones have the same level. No segment ends where the first one does.
    ASSERT_EQ(made[0].parts.size(), 2u);
    EXPECT_EQ(made[0].parts[0].end, 10240u);
    EXPECT_EQ(made[0].parts[1].end, 40960u);
    EXPECT_GT(made[0].parts[0].level, made[0].parts[1].level);
  });
}

// A rank that knows more than the others, or something else: the call is one part.
TEST(StepLevels, ACallThatRanksCutDifferentlyHasOneLevel) {
  std::vector<std::vector<LeveledCall>> found(3);
  run_peers(3, [&](ThreadPeers& peers) {
    std::vector<StepCall> step{{20000, 1, {}}, {30000, 1, {}}, {40000, 1, {}}};
    const auto rank = static_cast<std::size_t>(peers.rank());
    if (rank == 1) step[1].layers = {{0, 15360, 0, 0}, {15360, 14640, 0, 0}};
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(step);
    found[rank] = steps.levels().levels();
  });
  EXPECT_TRUE(found[1] == found[0]);
  EXPECT_TRUE(found[2] == found[0]);
  ASSERT_EQ(found[0].size(), 3u);
  for (const LeveledCall& call : found[0]) {
    EXPECT_EQ(call.size() == 1, call.back().end == 30000u);
  }
}

TEST(StepLevels, GiveEachPlaceItsCodecUntilTheStepIsAnother) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers, {{"RINGPRESS_ALGO", "ring"}});
    for (int i = 0; i < 8; ++i) steps.make(kStep);
    const std::vector<MadeCall> made = steps.make(kStep);
    EXPECT_EQ(made[2].codec, "q2:block=128,grid=uniform,round=nearest");
    EXPECT_NE(made[0].codec, made[2].codec);
    EXPECT_TRUE(steps.make(kStep) == made);
    const std::vector<StepCall> other{{25000, 1, {}}, {26000, 1, {}}};
    for (const MadeCall& call : steps.make(other)) EXPECT_EQ(call.codec, "q4");
    EXPECT_TRUE(steps.levels().levels().empty());
  });
}

// An evaluation, an odd last batch, a step that is broken off: after one step that is as it was,
// levels are as they were.
TEST(StepLevels, AreKeptWhileOtherCallsComeBetween) {
  const std::vector<StepCall> half(kStep.begin(), kStep.begin() + 2);
  const std::vector<std::vector<StepCall>> others{
      {{7000, 1, {}}}, {{25000, 1, {}}, {26000, 1, {}}}, {kStep[0], {555, 1, {}}}, half};
  std::vector<std::vector<std::vector<MadeCall>>> made(2);
  run_peers(2, [&](ThreadPeers& peers) {
    auto& own = made[static_cast<std::size_t>(peers.rank())];
    Steps steps(peers, {{"RINGPRESS_ADJUST_STEPS", "8"}});
    for (int i = 0; i < 11; ++i) own.push_back(steps.make(kStep));
    for (const std::vector<StepCall>& other : others) {
      for (int i = 0; i < 3; ++i) steps.make(other);
      steps.make(kStep);
      // The beginning of this one seems to go on with what came between.
      if (&other == &others.back()) steps.make(kStep);
      own.push_back(steps.make(kStep));
    }
  });
  EXPECT_TRUE(made[1] == made[0]);
  const std::vector<MadeCall> usual(3, {"q4", {}});
  EXPECT_FALSE(made[0][10] == usual);
  for (std::size_t i = 11; i < made[0].size(); ++i) EXPECT_TRUE(made[0][i] == made[0][10]) << i;
}

// Steps count though each few of them are followed by other calls.
TEST(StepLevels, AreFoundAlsoBetweenOtherCalls) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers, {{"RINGPRESS_ADJUST_STEPS", "20"}});
    for (const int times : {5, 3, 7, 4, 6, 3, 8, 2}) {
      for (int step = 0; step < times; ++step) steps.make(kStep);
      steps.make({{7000, 1, {}}});
    }
    for (int step = 0; step < 2; ++step) steps.make(kStep);
    EXPECT_EQ(steps.levels().levels().size(), kStep.size());
  });
}

// Steps and an evaluation, again and again, are one long sequence.
TEST(StepLevels, AreThoseOfTheStepWhereItIsAPartOfALongerOne) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers, {{"RINGPRESS_ADJUST_STEPS", "8"}});
    std::vector<MadeCall> last;
    bool was_long = false;
    for (int epoch = 0; epoch < 4; ++epoch) {
      for (int step = 0; step < 12; ++step) {
        const std::vector<MadeCall> made = steps.make(kStep);
        if (epoch > 0 && step > 1) {
          EXPECT_TRUE(made == last) << epoch << ", step " << step;
        }
        last = made;
      }
      steps.make({{7000, 1, {}}});
      was_long = was_long || steps.levels().levels().size() > kStep.size();
    }
    EXPECT_TRUE(was_long);
  });
}

// What another rule has decided on is left alone.
TEST(StepLevels, ChangeTheBudgetsCodecAlone) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 8; ++i) steps.make(kStep);
    for (const char* const codec : {"none", "q8"}) {
      PlanRequest request;
      request.count = kStep[0].count;
      Decision decision;
      decision.codec = codec;
      ASSERT_TRUE(steps.levels().choose(request, decision).is_ok());
      EXPECT_EQ(steps.levels().codec(), "");
      EXPECT_TRUE(steps.levels().parts().empty());
    }
  });
}

// Critical at first, calm when the norms stay, critical again when they double, on all ranks.
TEST(StepLevels, AccordionSendsMoreWhereTheNormChanges) {
  std::vector<std::vector<double>> sums(2);
  run_peers(2, [&](ThreadPeers& peers) {
    Steps steps(peers, {{"RINGPRESS_ACCORDION", "1"}});
    std::vector<StepCall> step = kStep;
    const auto bytes = [&steps] {
      double sum = 0;
      for (const LeveledCall& call : steps.levels().levels()) {
        std::size_t first = 0;
        for (const LeveledPart& part : call) {
          sum += steps.levels().family().bytes(part.level, part.end - first);
          first = part.end;
        }
      }
      return sum;
    };
    const auto make_interval = [&] {
      for (int i = 0; i < 5; ++i) steps.make(step);
    };
    auto& own = sums[static_cast<std::size_t>(peers.rank())];
    // The step that finds levels is the first one of the next interval.
    while (bytes() == 0) steps.make(step);
    own.push_back(bytes());
    make_interval();
    own.push_back(bytes());
    for (int i = 0; i < 4; ++i) steps.make(step);
    for (StepCall& call : step) call.scale *= 2;
    make_interval();
    EXPECT_EQ(bytes(), own[1]);
    steps.make(step);
    own.push_back(bytes());
  });
  EXPECT_EQ(sums[1], sums[0]);
  ASSERT_EQ(sums[0].size(), 3u);
  EXPECT_GT(sums[0][0], sums[0][1]);
  EXPECT_EQ(sums[0][2], sums[0][0]);
}

// A loss scaler that overflows: the levels stay as they are.
TEST(StepLevels, IgnoreAStepThatIsNotFinite) {
  run_peers(2, [](ThreadPeers& peers) {
    Steps steps(peers);
    for (int i = 0; i < 30; ++i) steps.make(kStep, INFINITY);
    EXPECT_TRUE(steps.levels().levels().empty());
  });
}

// Sizes are said to have changed once, not with each measurement.
TEST(StepLevels, SayWhenCallsSendClearlyMoreOrLess) {
  run_peers(2, [](ThreadPeers& peers) {
    const Settings settings = adjusting({});
    StepLevels levels(settings, peers, make_level_family(settings));
    int changes = 0;
    for (int step = 0; step < 30; ++step) {
      for (const StepCall& call : kStep) {
        PlanRequest request;
        request.count = call.count;
        Decision decision;
        decision.codec = "q4";
        ASSERT_TRUE(levels.choose(request, decision).is_ok());
        if (levels.has_changed_sizes()) ++changes;
        if (!levels.wants_values()) continue;
        const std::vector<float> values = values_of(call, peers.rank());
        levels.take({values.data(), nullptr, call.count, DType::kFloat32}, {});
      }
    }
    EXPECT_EQ(changes, 1);
  });
}

// Buckets that are cut anew, odd batches, another model in between, layers that only some know.
TEST(StepLevels, RanksNeverDiffer) {
  const std::vector<std::vector<StepCall>> programs{
      {{6000, 1, {}}, {4500, 0.01f, {}}, {5000, 1e-4f, {}}},
      {{5500, 1, {}}, {2600, 1e-3f, {}}},
      {{4900, 1, {}}},
      {{4900, 1, {}}, {4900, 2, {}}}};
  for (int ranks = 2; ranks <= 4; ++ranks) {
    std::vector<std::vector<MadeCall>> made(static_cast<std::size_t>(ranks));
    std::vector<std::size_t> with_parts(static_cast<std::size_t>(ranks));
    run_peers(ranks, [&](ThreadPeers& peers) {
      const auto rank = static_cast<std::size_t>(peers.rank());
      Steps steps(peers, {{"RINGPRESS_ACCORDION", "1"}, {"RINGPRESS_ADJUST_STEPS", "7"}});
      std::mt19937 dice(5);
      std::mt19937 own_dice(peers.rank() == 0 ? 6u : 7u);
      for (int part = 0; part < 25; ++part) {
        std::vector<StepCall> step = programs[dice() % programs.size()];
        if (own_dice() % 4 == 0) step[0].layers = {{0, 2048, 0, 0}};
        const int times = 2 + static_cast<int>(dice() % 12);
        for (int i = 0; i < times; ++i) {
          for (MadeCall& call : steps.make(step)) {
            if (!call.parts.empty()) ++with_parts[rank];
            made[rank].push_back(std::move(call));
          }
        }
        if (dice() % 3 == 0) steps.make({{1000 + dice() % 5000, 1, {}}});
      }
    });
    for (std::size_t rank = 1; rank < made.size(); ++rank)
      EXPECT_TRUE(made[rank] == made[0]) << rank;
    EXPECT_GT(with_parts[0], 30u);
  }
}

}  // namespace
}  // namespace ringpress::nccl_plugin::tuning
