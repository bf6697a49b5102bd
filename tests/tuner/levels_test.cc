#include "ringpress/internal/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "perf/levels/random_table.h"
#include "tuner/factory.h"

namespace ringpress {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using perf::LevelTable;
using perf::random_table;

constexpr std::size_t kLevels = 7;
constexpr std::size_t kDefaultLevel = 2;

LevelChoice allocate(const LevelTable& table, const LevelBudget& budget = {},
                     std::size_t default_level = kDefaultLevel) {
  return tuner::allocate_levels(perf::layers_of(table, default_level), budget).value();
}

TEST(Levels, AreWithinOnePercentOfTheFewestBytesInNinetyFiveOfAHundredTables) {
  for (const ErrorMetric in : {ErrorMetric::kL2, ErrorMetric::kL2Squared}) {
    std::vector<double> ratios;
    for (unsigned seed = 0; seed < 200; ++seed) {
      const LevelTable table = random_table(6, kLevels, seed);
      const LevelChoice choice = allocate(table, {.metric = in});
      EXPECT_LE(choice.errors[0], choice.allowed_errors[0]) << seed;
      // A little more, as it subtracts where the other adds.
      const double fewest = perf::fewest_bytes(table, {choice.allowed_errors[0] * (1 + 1e-12)}, in);
      EXPECT_GE(choice.bytes, fewest * (1 - 1e-12)) << seed;
      ratios.push_back(choice.bytes / fewest);
    }
    std::sort(ratios.begin(), ratios.end());
    EXPECT_LE(ratios[189], 1.01);
  }
}

TEST(Levels, AreTheDefaultsWhereAllAreEqual) {
  const LevelTable table(20, std::vector<LevelCost>(kLevels, LevelCost{100, {1}}));
  const LevelChoice choice = allocate(table, {}, 3);
  EXPECT_EQ(choice.levels, std::vector<std::size_t>(20, 3));
  EXPECT_EQ(choice.bytes, 2000);
  EXPECT_EQ(choice.errors[0], 20);
}

TEST(Levels, NeverSendMoreThanTheDefaultsNorWithALargerAlpha) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const LevelTable table = random_table(40, kLevels, seed);
    double before = kInfinity;
    for (const double alpha : {0.01, 0.2, 0.5, 0.9, 0.99, 1.0, 1.01, 1.5, 3.0, 50.0}) {
      const LevelChoice choice = allocate(table, {.alpha = alpha, .steps = 1000});
      EXPECT_LE(choice.bytes, before) << "alpha " << alpha << ", seed " << seed;
      before = choice.bytes;
      if (alpha != 1) continue;
      double of_defaults = 0;
      for (const auto& layer : table) of_defaults += layer[kDefaultLevel].bytes;
      EXPECT_LT(choice.bytes, of_defaults);
    }
  }
}

TEST(Levels, AreTheMostExactOnesWhereNothingFits) {
  const LevelTable table = random_table(5, kLevels, 1);
  const LevelChoice choice = allocate(table, {.alpha = 1e-6});
  EXPECT_EQ(choice.levels, std::vector<std::size_t>(5, 6));
  EXPECT_GT(choice.errors[0], choice.allowed_errors[0]);
}

/// A layer whose default loses nothing leaves no budget to others, and needs none.
/// The second error of a level falls faster than the first one, as that of a mean with error
/// feedback does; how much it weighs is another matter for each layer.
LevelTable two_errors(std::size_t layers, unsigned seed) {
  LevelTable table = random_table(layers, kLevels, seed);
  for (std::size_t i = 0; i < layers; ++i) {
    const double weight = 1 + 0.5 * static_cast<double>(i % 3);
    for (LevelCost& cost : table[i]) cost.errors[1] = weight * std::pow(cost.errors[0], 1.5);
  }
  return table;
}

TEST(Levels, KeepTheBudgetOfTheMeanToo) {
  std::size_t saving = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    const LevelTable table = two_errors(20, seed);
    const LevelChoice choice = allocate(table, {.metric = ErrorMetric::kL2Squared});
    EXPECT_LE(choice.errors[0], choice.allowed_errors[0]);
    EXPECT_LE(choice.errors[1], choice.allowed_errors[1]);
    double usual = 0;
    for (const auto& layer : table) usual += layer[kDefaultLevel].bytes;
    EXPECT_LE(choice.bytes, usual);
    if (choice.bytes < 0.95 * usual) ++saving;
  }
  EXPECT_GT(saving, 50u);
}

/// Of a call and of the mean, now and if layers grow or shrink.
LevelTable six_errors(std::size_t layers, unsigned seed) {
  LevelTable table = two_errors(layers, seed);
  std::mt19937 generator(seed);
  std::lognormal_distribution<double> growths(0, 0.3);
  for (auto& layer : table) {
    const double growth = growths(generator);
    for (LevelCost& cost : layer) {
      const double of_call = cost.errors[0], of_mean = cost.errors[1];
      cost.errors = {of_call,          of_mean,          growth * of_call,
                     growth * of_mean, of_call / growth, of_mean / growth};
    }
  }
  return table;
}

// Few layers are the hard ones: budgets are used up in large pieces.
TEST(Levels, AreNearTheFewestBytesWithinSixBudgets) {
  for (const std::size_t layers : {3, 5}) {
    double sum = 0;
    constexpr unsigned kTables = 50;
    for (unsigned seed = 0; seed < kTables; ++seed) {
      const LevelTable table = six_errors(layers, seed);
      const LevelChoice choice = allocate(table, {.metric = ErrorMetric::kL2Squared});
      LevelErrors allowed = choice.allowed_errors;
      for (std::size_t k = 0; k < kErrorBudgets; ++k) {
        EXPECT_LE(choice.errors[k], allowed[k]) << seed;
        allowed[k] *= 1 + 1e-12;
      }
      sum += choice.bytes / perf::fewest_bytes(table, allowed, ErrorMetric::kL2Squared);
    }
    EXPECT_LE(sum / kTables, 1.01) << layers;
  }
}

TEST(Levels, ThatLoseNothingNeedNoBudget) {
  const LevelTable table = {{{10, {0}}, {5, {0}}, {1, {1}}}, {{10, {0}}, {1, {1}}}};
  const LevelChoice choice = allocate(table, {}, 0);
  EXPECT_EQ(choice.levels, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(choice.errors[0], 0);
}

TEST(Levels, OfInfiniteErrorAreChosenByDefaultOnly) {
  const LevelTable table = {{{10, {1}}, {1, {kInfinity}}}, {{10, {1}}, {9, {1}}}};
  EXPECT_EQ(allocate(table, {}, 0).levels, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(allocate(table, {}, 1).levels, (std::vector<std::size_t>{1, 1}));
}

TEST(Levels, OfNoLayersAreNone) {
  const LevelChoice choice = allocate(LevelTable());
  EXPECT_TRUE(choice.levels.empty());
  EXPECT_EQ(choice.bytes, 0);
}

TEST(Levels, NameWhatIsWrongWithThem) {
  const auto refusal = [](const LevelTable& table, const LevelBudget& budget,
                          std::size_t default_level = 1) {
    return tuner::allocate_levels(perf::layers_of(table, default_level), budget).status().message();
  };
  const LevelTable good = random_table(3, 4, 0);
  LevelTable table = good;
  table[2][1].errors[0] = kNan;
  EXPECT_EQ(refusal(table, {}), "layer 2, level 1: an error must be a number from 0 on");
  table = good;
  table[1][3].bytes = -1;
  EXPECT_EQ(refusal(table, {}), "layer 1, level 3: bytes must be a number from 0 on");
  EXPECT_EQ(refusal(good, {}, 4), "layer 0, level 4: the default is none of its 4 levels");
  table = good;
  table[0].clear();
  EXPECT_EQ(refusal(table, {}), "layer 0 has 0 levels; allowed: 1 to 256");
  EXPECT_EQ(refusal(good, {.alpha = 0}), "alpha must be a number above 0");
  EXPECT_EQ(refusal(good, {.alpha = kNan}), "alpha must be a number above 0");
  EXPECT_EQ(refusal(good, {.steps = 0}), "an error budget has 1 to 2^32 - 1 steps");
}

}  // namespace
}  // namespace ringpress
