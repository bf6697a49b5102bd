// L-GreCo's dynamic programme over layers. fewest[e] is the fewest bytes of the layers so far whose
// errors, each rounded up to whole steps of the budget, add up to e or less.
//
// There are several budgets, and the programme has one: a weighted sum of the errors, each over
// what is allowed of it. Weights of budgets that are exceeded grow, and others fall, until the
// levels use up what is scarce and keep within the rest.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLevels = 256;  // A choice is kept in a byte.
// Of weights for several budgets: programmes in all, and powers of the used shares of budgets that
// weights grow by where any budget is exceeded, by a little at least, and fall by otherwise.
constexpr std::size_t kProgrammes = 8;
constexpr double kGrowth = 2.5;
constexpr double kLeastExcess = 1.01;
constexpr double kFall = 1.5;
constexpr double kLeastShare = 0.1;
constexpr std::size_t kFewLayers = 64;
constexpr double kRounding = 1e-12;  // Of sums in another order, at most.

double in_metric(double error, ErrorMetric metric) {
  switch (metric) {
    case ErrorMetric::kL2:
      return error;
    case ErrorMetric::kL2Squared:
      return error * error;
  }
  return error;
}

std::string at(std::size_t layer, std::size_t level) {
  return "layer " + std::to_string(layer) + ", level " + std::to_string(level) + ": ";
}

Status check_layer(std::size_t number, const LayerLevels& layer) {
  if (layer.costs.empty() || layer.costs.size() > kMostLevels) {
    return {Code::kInvalidArgument, "layer " + std::to_string(number) + " has " +
                                        std::to_string(layer.costs.size()) +
                                        " levels; allowed: 1 to " + std::to_string(kMostLevels)};
  }
  if (layer.default_level >= layer.costs.size()) {
    return {Code::kInvalidArgument, at(number, layer.default_level) +
                                        "the default is none of its " +
                                        std::to_string(layer.costs.size()) + " levels"};
  }
  for (std::size_t level = 0; level < layer.costs.size(); ++level) {
    const LevelCost& cost = layer.costs[level];
    if (!(cost.bytes >= 0) || !std::isfinite(cost.bytes)) {
      return {Code::kInvalidArgument, at(number, level) + "bytes must be a number from 0 on"};
    }
    if (!std::all_of(cost.errors.begin(), cost.errors.end(), [](double e) { return e >= 0; })) {
      return {Code::kInvalidArgument, at(number, level) + "an error must be a number from 0 on"};
    }
  }
  return Status::ok();
}

Status check(std::span<const LayerLevels> layers, const LevelBudget& budget) {
  if (!(budget.alpha > 0) || !std::isfinite(budget.alpha)) {
    return {Code::kInvalidArgument, "alpha must be a number above 0"};
  }
  if (budget.steps == 0 || budget.steps > UINT32_MAX) {
    return {Code::kInvalidArgument, "an error budget has 1 to 2^32 - 1 steps"};
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    RINGPRESS_RETURN_IF_ERROR(check_layer(i, layers[i]));
  }
  return Status::ok();
}

/// Bytes and errors of a choice, summed in the order of layers.
void add_up(std::span<const LayerLevels> layers, ErrorMetric metric, LevelChoice* choice) {
  choice->bytes = 0;
  choice->errors = {};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LevelCost& cost = layers[i].costs[choice->levels[i]];
    choice->bytes += cost.bytes;
    for (std::size_t k = 0; k < kErrorBudgets; ++k) {
      choice->errors[k] += in_metric(cost.errors[k], metric);
    }
  }
}

LevelChoice default_choice(std::span<const LayerLevels> layers, const LevelBudget& budget) {
  LevelChoice choice;
  for (const LayerLevels& layer : layers) choice.levels.push_back(layer.default_level);
  add_up(layers, budget.metric, &choice);
  for (std::size_t k = 0; k < kErrorBudgets; ++k) {
    choice.allowed_errors[k] = budget.alpha * choice.errors[k];
  }
  return choice;
}

/// The least error that there is, for budgets that nothing fits in.
LevelChoice most_exact_choice(std::span<const LayerLevels> layers, const LevelBudget& budget) {
  LevelChoice choice;
  for (const LayerLevels& layer : layers) {
    const auto best = std::min_element(
        layer.costs.begin(), layer.costs.end(), [](const LevelCost& a, const LevelCost& b) {
          return std::pair(a.errors[0], a.bytes) < std::pair(b.errors[0], b.bytes);
        });
    choice.levels.push_back(static_cast<std::size_t>(best - layer.costs.begin()));
  }
  add_up(layers, budget.metric, &choice);
  return choice;
}

/// Of what is allowed; of nothing, nothing is a part.
double share_of(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : kNever;
}

LevelErrors shares_of(const LevelErrors& errors, const LevelErrors& allowed) {
  LevelErrors shares;
  for (std::size_t k = 0; k < kErrorBudgets; ++k) shares[k] = share_of(errors[k], allowed[k]);
  return shares;
}

double largest_of(const LevelErrors& shares) {
  return *std::max_element(shares.begin(), shares.end());
}

class Programme {
 public:
  /// `usual` says what is allowed. `weights`: of the errors, over that.
  Programme(std::span<const LayerLevels> layers, const LevelBudget& budget,
            const LevelChoice& usual, const LevelErrors& weights)
      : layers_(layers), budget_(budget), usual_(usual), weights_(weights) {}

  /// The levels with the fewest bytes; none if nothing is within the budget.
  std::vector<std::size_t> run() {
    const std::size_t width = budget_.steps + 1;
    fewest_.assign(width, 0);
    chosen_.assign(layers_.size() * width, 0);
    for (std::size_t i = 0; i < layers_.size(); ++i) add_layer(layers_[i], &chosen_[i * width]);
    return fewest_.back() == kNever ? std::vector<std::size_t>() : walk_back();
  }

 private:
  /// Rounded up, so that what fits in steps fits; more than there are: too much.
  std::size_t steps_of(const LevelCost& cost) const {
    LevelErrors errors = cost.errors;
    for (double& error : errors) error = in_metric(error, budget_.metric);
    const LevelErrors shares = shares_of(errors, usual_.allowed_errors);
    if (largest_of(shares) > 1) return budget_.steps + 1;
    const double share = std::inner_product(shares.begin(), shares.end(), weights_.begin(), 0.0);
    if (share == 0) return 0;
    const double steps = std::ceil(share * static_cast<double>(budget_.steps));
    return std::max<std::size_t>(1, static_cast<std::size_t>(steps));
  }

  void add_layer(const LayerLevels& layer, std::uint8_t* chosen) {
    const std::vector<double> before(fewest_);
    std::fill(fewest_.begin(), fewest_.end(), kNever);
    // The default first: it stays where others are no better.
    add_level(layer, layer.default_level, before, chosen);
    for (std::size_t level = 0; level < layer.costs.size(); ++level) {
      if (level != layer.default_level) add_level(layer, level, before, chosen);
    }
  }

  void add_level(const LayerLevels& layer, std::size_t level, const std::vector<double>& before,
                 std::uint8_t* chosen) {
    const std::size_t steps = steps_of(layer.costs[level]);
    const double bytes = layer.costs[level].bytes;
    const auto number = static_cast<std::uint8_t>(level);
    double* const fewest = fewest_.data();
    const double* const rest = before.data();
    for (std::size_t e = steps; e <= budget_.steps; ++e) {
      const double with = rest[e - steps] + bytes;
      const bool is_better = with < fewest[e];
      fewest[e] = is_better ? with : fewest[e];
      chosen[e] = is_better ? number : chosen[e];
    }
  }

  std::vector<std::size_t> walk_back() const {
    std::vector<std::size_t> levels(layers_.size());
    std::size_t e = budget_.steps;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      levels[i] = chosen_[i * (budget_.steps + 1) + e];
      e -= steps_of(layers_[i].costs[levels[i]]);
    }
    return levels;
  }

  const std::span<const LayerLevels> layers_;
  const LevelBudget& budget_;
  const LevelChoice& usual_;
  const LevelErrors& weights_;
  std::vector<double> fewest_;
  std::vector<std::uint8_t> chosen_;  // By layer and error.
};

/// Equal weights for budgets that differ, 0 for others and for those of no errors.
LevelErrors first_weights(std::span<const LayerLevels> layers) {
  LevelErrors weights{};
  std::vector<std::vector<double>> columns;
  for (std::size_t k = 0; k < kErrorBudgets; ++k) {
    std::vector<double> column;
    for (const LayerLevels& layer : layers) {
      for (const LevelCost& cost : layer.costs) column.push_back(cost.errors[k]);
    }
    if (k == 0) columns.emplace_back(column.size());
    if (std::find(columns.begin(), columns.end(), column) != columns.end()) continue;
    columns.push_back(std::move(column));
    weights[k] = 1;
  }
  for (double& weight : weights)
    weight /= static_cast<double>(std::max<std::size_t>(2, columns.size()) - 1);
  return weights;
}

/// Of few layers, sums of weights leave out much: one or two levels at a time are exchanged for
/// others that take fewer bytes.
class Exchanges {
 public:
  Exchanges(std::span<const LayerLevels> layers, const LevelBudget& budget, LevelChoice* choice)
      : layers_(layers), budget_(budget), choice_(choice) {}

  void make() {
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (std::size_t first = 0; first < layers_.size(); ++first) {
        for (std::size_t level = 0; level < layers_[first].costs.size(); ++level) {
          has_changed = exchange(first, level) || has_changed;
        }
      }
    }
  }

 private:
  /// Bytes and errors that a change of level makes more.
  LevelCost change(std::size_t layer, std::size_t level) const {
    const LevelCost &now = layers_[layer].costs[choice_->levels[layer]],
                    &then = layers_[layer].costs[level];
    LevelCost more{then.bytes - now.bytes};
    for (std::size_t k = 0; k < kErrorBudgets; ++k) {
      more.errors[k] =
          in_metric(then.errors[k], budget_.metric) - in_metric(now.errors[k], budget_.metric);
    }
    return more;
  }
  bool is_better(const LevelCost& first, const LevelCost& second) const {
    bool fits = first.bytes + second.bytes < -kRounding * choice_->bytes;
    for (std::size_t k = 0; k < kErrorBudgets; ++k) {
      const double error = choice_->errors[k] + first.errors[k] + second.errors[k];
      fits = fits && error <= (1 - kRounding) * choice_->allowed_errors[k];
    }
    return fits;
  }
  void set(std::size_t layer, std::size_t level) {
    choice_->levels[layer] = level;
    add_up(layers_, budget_.metric, choice_);
  }
  bool exchange(std::size_t first, std::size_t level) {
    const LevelCost change_of_first = change(first, level);
    if (is_better(change_of_first, {})) {
      set(first, level);
      return true;
    }
    for (std::size_t second = 0; second < first; ++second) {
      for (std::size_t other = 0; other < layers_[second].costs.size(); ++other) {
        if (!is_better(change_of_first, change(second, other))) continue;
        set(first, level);
        set(second, other);
        return true;
      }
    }
    return false;
  }

  const std::span<const LayerLevels> layers_;
  const LevelBudget& budget_;
  LevelChoice* const choice_;
};

}  // namespace

Result<LevelChoice> allocate_levels(std::span<const LayerLevels> layers,
                                    const LevelBudget& budget) {
  RINGPRESS_RETURN_IF_ERROR(check(layers, budget));
  const LevelChoice usual = default_choice(layers, budget);
  // Errors that no budget can be made of leave everything as it is.
  if (!std::all_of(usual.allowed_errors.begin(), usual.allowed_errors.end(),
                   [](double error) { return std::isfinite(error); })) {
    return usual;
  }
  const auto fits = [&usual](const LevelChoice& choice) {
    return largest_of(shares_of(choice.errors, usual.allowed_errors)) <= 1;
  };
  LevelChoice best = usual;
  LevelErrors weights = first_weights(layers);
  const bool has_one_budget = std::count(weights.begin(), weights.end(), 0.0) >=
                              static_cast<std::ptrdiff_t>(kErrorBudgets) - 1;
  for (std::size_t number = 0; number < (has_one_budget ? 1 : kProgrammes); ++number) {
    LevelChoice found = usual;
    found.levels = Programme(layers, budget, usual, weights).run();
    if (found.levels.size() != layers.size()) break;
    add_up(layers, budget.metric, &found);
    // Sums of rounded steps may differ from those of numbers in the last bits.
    const bool is_within = fits(found);
    if (is_within && (!fits(best) || found.bytes < best.bytes)) best = found;
    const LevelErrors shares = shares_of(found.errors, usual.allowed_errors);
    for (std::size_t k = 0; k < kErrorBudgets; ++k) {
      weights[k] *= is_within ? std::pow(std::max(shares[k], kLeastShare), kFall)
                              : std::pow(std::max(shares[k], kLeastExcess), kGrowth);
    }
  }
  if (fits(best)) {
    if (layers.size() <= kFewLayers) Exchanges(layers, budget, &best).make();
    return best;
  }
  best = most_exact_choice(layers, budget);
  best.allowed_errors = usual.allowed_errors;
  return best;
}

}  // namespace ringpress::tuner
