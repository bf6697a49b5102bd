// Tables of levels to try the choice of levels with, and the fewest bytes of all choices.
#ifndef PERF_LEVELS_RANDOM_TABLE_H_
#define PERF_LEVELS_RANDOM_TABLE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "ringpress/internal/levels.h"

namespace ringpress::perf {

/// The costs of each layer's levels.
using LevelTable = std::vector<std::vector<LevelCost>>;

/// Layers of sizes and norms over three decades whose error falls to about a half with each level,
/// as with each bit.
inline LevelTable random_table(std::size_t layers, std::size_t levels, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> decades(0, 3);
  std::uniform_real_distribution<double> ratio(0.4, 0.65);
  LevelTable table;
  for (std::size_t i = 0; i < layers; ++i) {
    const double size = 1000 * std::pow(10, decades(generator));
    double error = std::pow(10, decades(generator));
    std::vector<LevelCost> costs;
    for (std::size_t level = 0; level < levels; ++level) {
      costs.push_back({size * static_cast<double>(level + 2) / 8, {error}});
      error *= ratio(generator);
    }
    table.push_back(std::move(costs));
  }
  return table;
}

inline std::vector<LayerLevels> layers_of(const LevelTable& table, std::size_t default_level) {
  std::vector<LayerLevels> layers;
  for (const auto& costs : table) layers.push_back({costs, default_level});
  return layers;
}

/// Of all choices from layer `first` on whose errors add up to `allowed` at most; infinity if there
/// are none.
inline double fewest_bytes(const LevelTable& table, const LevelErrors& allowed, ErrorMetric metric,
                           std::size_t first = 0) {
  if (*std::min_element(allowed.begin(), allowed.end()) < 0) {
    return std::numeric_limits<double>::infinity();
  }
  if (first == table.size()) return 0;
  double best = std::numeric_limits<double>::infinity();
  for (const LevelCost& cost : table[first]) {
    LevelErrors left = allowed;
    for (std::size_t k = 0; k < kErrorBudgets; ++k) {
      const double error = cost.errors[k];
      left[k] -= metric == ErrorMetric::kL2 ? error : error * error;
    }
    best = std::min(best, cost.bytes + fewest_bytes(table, left, metric, first + 1));
  }
  return best;
}

}  // namespace ringpress::perf

#endif  // PERF_LEVELS_RANDOM_TABLE_H_
