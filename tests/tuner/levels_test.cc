#include "ringpress/levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tuner/factory.h"

namespace ringpress {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The costs of layers, and how they are handed over.
struct Table {
  std::vector<std::vector<LevelCost>> costs;
  std::size_t default_level = 0;

  std::vector<LayerLevels> layers() const {
    std::vector<LayerLevels> result;
    for (const auto& layer : costs) result.push_back({layer, default_level});
    return result;
  }
};

/// Layers of sizes and norms over three decades whose error falls to about a half with each level,
/// as with each bit.
Table random_table(std::size_t layers, std::size_t levels, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> decades(0, 3);
  std::uniform_real_distribution<double> ratio(0.4, 0.65);
  Table table;
  table.default_level = levels / 3;
  for (std::size_t i = 0; i < layers; ++i) {
    const double size = 1000 * std::pow(10, decades(generator));
    double error = std::pow(10, decades(generator));
    std::vector<LevelCost> costs;
    for (std::size_t level = 0; level < levels; ++level) {
      costs.push_back({size * static_cast<double>(level + 2) / 8, error});
      error *= ratio(generator);
    }
    table.costs.push_back(costs);
  }
  return table;
}

LevelChoice allocate(const Table& table, const LevelBudget& budget = {}) {
  return tuner::allocate_levels(table.layers(), budget).value();
}

double metric(double error, ErrorMetric metric) {
  return metric == ErrorMetric::kL2 ? error : error * error;
}

/// The fewest bytes of all choices that fit.
double try_all(const Table& table, double allowed, ErrorMetric in, std::size_t layer = 0) {
  if (allowed < 0) return kInfinity;
  if (layer == table.costs.size()) return 0;
  double best = kInfinity;
  for (const LevelCost& cost : table.costs[layer]) {
    const double rest = try_all(table, allowed - metric(cost.error, in), in, layer + 1);
    best = std::min(best, cost.bytes + rest);
  }
  return best;
}

TEST(Levels, AreWithinOnePercentOfTheFewestBytesInNinetyFiveOfAHundredTables) {
  for (const ErrorMetric in : {ErrorMetric::kL2, ErrorMetric::kL2Squared}) {
    std::vector<double> ratios;
    for (unsigned seed = 0; seed < 200; ++seed) {
      const Table table = random_table(6, 7, seed);
      const LevelChoice choice = allocate(table, {.metric = in});
      EXPECT_LE(choice.error, choice.allowed_error) << seed;
      // A little more, as it subtracts where the other adds.
      const double fewest = try_all(table, choice.allowed_error * (1 + 1e-12), in);
      EXPECT_GE(choice.bytes, fewest * (1 - 1e-12)) << seed;
      ratios.push_back(choice.bytes / fewest);
    }
    std::sort(ratios.begin(), ratios.end());
    EXPECT_LE(ratios[189], 1.01);
  }
}

TEST(Levels, AreTheDefaultsWhereAllAreEqual) {
  Table table;
  table.default_level = 3;
  table.costs.assign(20, std::vector<LevelCost>(7, LevelCost{100, 1}));
  const LevelChoice choice = allocate(table);
  EXPECT_EQ(choice.levels, std::vector<std::size_t>(20, 3));
  EXPECT_EQ(choice.bytes, 2000);
  EXPECT_EQ(choice.error, 20);
}

TEST(Levels, NeverSendMoreThanTheDefaultsNorWithALargerAlpha) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Table table = random_table(40, 7, seed);
    double before = kInfinity;
    for (const double alpha : {0.01, 0.2, 0.5, 0.9, 0.99, 1.0, 1.01, 1.5, 3.0, 50.0}) {
      const LevelChoice choice = allocate(table, {.alpha = alpha, .steps = 1000});
      EXPECT_LE(choice.bytes, before) << "alpha " << alpha << ", seed " << seed;
      before = choice.bytes;
      if (alpha != 1) continue;
      double of_defaults = 0;
      for (const auto& layer : table.costs) of_defaults += layer[table.default_level].bytes;
      EXPECT_LT(choice.bytes, of_defaults);
    }
  }
}

TEST(Levels, AreTheMostExactOnesWhereNothingFits) {
  const Table table = random_table(5, 7, 1);
  const LevelChoice choice = allocate(table, {.alpha = 1e-6});
  EXPECT_EQ(choice.levels, std::vector<std::size_t>(5, 6));
  EXPECT_GT(choice.error, choice.allowed_error);
}

/// A layer whose default loses nothing leaves no budget to others, and needs none.
TEST(Levels, ThatLoseNothingNeedNoBudget) {
  Table table;
  table.costs = {{{10, 0}, {5, 0}, {1, 1}}, {{10, 0}, {1, 1}}};
  const LevelChoice choice = allocate(table);
  EXPECT_EQ(choice.levels, (std::vector<std::size_t>{1, 0}));
  EXPECT_EQ(choice.error, 0);
}

TEST(Levels, OfInfiniteErrorAreChosenByDefaultOnly) {
  Table table;
  table.costs = {{{10, 1}, {1, kInfinity}}, {{10, 1}, {9, 1}}};
  EXPECT_EQ(allocate(table).levels, (std::vector<std::size_t>{0, 1}));
  table.default_level = 1;
  EXPECT_EQ(allocate(table).levels, (std::vector<std::size_t>{1, 1}));
}

TEST(Levels, OfNoLayersAreNone) {
  const LevelChoice choice = allocate(Table());
  EXPECT_TRUE(choice.levels.empty());
  EXPECT_EQ(choice.bytes, 0);
}

TEST(Levels, NameWhatIsWrongWithThem) {
  const auto refusal = [](const Table& table, const LevelBudget& budget) {
    return tuner::allocate_levels(table.layers(), budget).status().message();
  };
  Table table = random_table(3, 4, 0);
  table.costs[2][1].error = kNan;
  EXPECT_EQ(refusal(table, {}), "layer 2, level 1: an error must be a number from 0 on");
  table = random_table(3, 4, 0);
  table.costs[1][3].bytes = -1;
  EXPECT_EQ(refusal(table, {}), "layer 1, level 3: bytes must be a number from 0 on");
  table = random_table(3, 4, 0);
  table.default_level = 4;
  EXPECT_EQ(refusal(table, {}), "layer 0, level 4: the default is none of its 4 levels");
  table.costs[0].clear();
  EXPECT_EQ(refusal(table, {}), "layer 0 has 0 levels; allowed: 1 to 256");
  table = random_table(3, 4, 0);
  EXPECT_EQ(refusal(table, {.alpha = 0}), "alpha must be a number above 0");
  EXPECT_EQ(refusal(table, {.alpha = kNan}), "alpha must be a number above 0");
  EXPECT_EQ(refusal(table, {.steps = 0}), "an error budget has 1 to 2^32 - 1 steps");
}

}  // namespace
}  // namespace ringpress
