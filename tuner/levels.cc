// L-GreCo's dynamic programme over layers. fewest[e] is the fewest bytes of the layers so far whose
// errors, each rounded up to whole steps of the budget, add up to e or less.
//
// There are two budgets, of a call and of the mean over many. The programme has one: a weighted
// mean of both errors, each over what is allowed of it. What keeps both is within any such mean; so
// what is best for one of them alone and keeps the other is best, and else some means in between
// are tried.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "tuner/factory.h"

namespace ringpress::tuner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLevels = 256;  // A choice is kept in a byte.

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
    if (!(cost.error >= 0) || !(cost.mean_error >= 0)) {
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

/// Bytes and error of a choice, summed in the order of layers.
void add_up(std::span<const LayerLevels> layers, ErrorMetric metric, LevelChoice* choice) {
  choice->bytes = 0;
  choice->error = 0;
  choice->mean_error = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LevelCost& cost = layers[i].costs[choice->levels[i]];
    choice->bytes += cost.bytes;
    choice->error += in_metric(cost.error, metric);
    choice->mean_error += in_metric(cost.mean_error, metric);
  }
}

LevelChoice default_choice(std::span<const LayerLevels> layers, const LevelBudget& budget) {
  LevelChoice choice;
  for (const LayerLevels& layer : layers) choice.levels.push_back(layer.default_level);
  add_up(layers, budget.metric, &choice);
  choice.allowed_error = budget.alpha * choice.error;
  choice.allowed_mean_error = budget.alpha * choice.mean_error;
  return choice;
}

/// The least error that there is, for budgets that nothing fits in.
LevelChoice most_exact_choice(std::span<const LayerLevels> layers, const LevelBudget& budget) {
  LevelChoice choice;
  for (const LayerLevels& layer : layers) {
    const auto best = std::min_element(
        layer.costs.begin(), layer.costs.end(), [](const LevelCost& a, const LevelCost& b) {
          return std::pair(a.error, a.bytes) < std::pair(b.error, b.bytes);
        });
    choice.levels.push_back(static_cast<std::size_t>(best - layer.costs.begin()));
  }
  add_up(layers, budget.metric, &choice);
  return choice;
}

bool fits(const LevelChoice& choice) {
  return choice.error <= choice.allowed_error && choice.mean_error <= choice.allowed_mean_error;
}

/// Of what is allowed; of nothing, nothing is a part.
double share_of(double error, double allowed) {
  if (error == 0) return 0;
  return error <= allowed ? error / allowed : kNever;
}

class Programme {
 public:
  /// `usual` says what is allowed. `call_weight`, 0 to 1: of a call's error; the mean's has the
  /// rest.
  Programme(std::span<const LayerLevels> layers, const LevelBudget& budget,
            const LevelChoice& usual, double call_weight)
      : layers_(layers), budget_(budget), usual_(usual), call_weight_(call_weight) {}

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
    const double of_call = share_of(in_metric(cost.error, budget_.metric), usual_.allowed_error);
    const double of_mean =
        share_of(in_metric(cost.mean_error, budget_.metric), usual_.allowed_mean_error);
    if (of_call == kNever || of_mean == kNever) return budget_.steps + 1;
    const double share = call_weight_ * of_call + (1 - call_weight_) * of_mean;
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
  const double call_weight_;
  std::vector<double> fewest_;
  std::vector<std::uint8_t> chosen_;  // By layer and error.
};

}  // namespace

Result<LevelChoice> allocate_levels(std::span<const LayerLevels> layers,
                                    const LevelBudget& budget) {
  RINGPRESS_RETURN_IF_ERROR(check(layers, budget));
  LevelChoice usual = default_choice(layers, budget);
  // Errors that no budget can be made of leave everything as it is.
  if (!std::isfinite(usual.allowed_error + usual.allowed_mean_error)) return usual;
  LevelChoice best = usual;
  for (const double call_weight : {1.0, 0.0, 0.5, 0.25, 0.75}) {
    LevelChoice found = usual;
    found.levels = Programme(layers, budget, usual, call_weight).run();
    if (found.levels.size() != layers.size()) continue;
    add_up(layers, budget.metric, &found);
    // Sums of rounded steps may differ from those of numbers in the last bits.
    const bool is_within = fits(found);
    if (is_within && (!fits(best) || found.bytes < best.bytes)) best = found;
    const bool is_of_one_budget = call_weight == 1 || call_weight == 0;
    if ((is_within && is_of_one_budget) || usual.allowed_mean_error == 0) break;
  }
  if (fits(best)) return best;
  best = most_exact_choice(layers, budget);
  best.allowed_error = usual.allowed_error;
  best.allowed_mean_error = usual.allowed_mean_error;
  return best;
}

}  // namespace ringpress::tuner
