// How many bits, or what density or rank, each layer is compressed with: the fewest bytes whose
// error is not above that of one setting for all. L-GreCo (Markov, Alimohammadi, Frantar, Alistarh,
// MLSys 2024), section 3; its released code is what defaults follow.
#ifndef RINGPRESS_INTERNAL_LEVELS_H_
#define RINGPRESS_INTERNAL_LEVELS_H_

#include <cstddef>
#include <span>
#include <vector>

namespace ringpress {

/// What one level of compression makes of a layer.
struct LevelCost {
  double bytes = 0;  // That are sent.
  double error = 0;  // The l2 norm of what a call loses. Infinity: not to be chosen.
  // The same of the mean over many calls, whose budget is one of its own. 0 everywhere: none.
  double mean_error = 0;
};

/// The levels that a layer may have, in any order, and the one that it would have without all this.
struct LayerLevels {
  std::span<const LevelCost> costs;
  std::size_t default_level = 0;
};

/// How errors of layers add up.
enum class ErrorMetric {
  kL2,         // Norms.
  kL2Squared,  // Their squares: what bounds of error feedback are about.
};

struct LevelBudget {
  double alpha = 1;  // Of the error of the default levels, so much is allowed.
  ErrorMetric metric = ErrorMetric::kL2;
  std::size_t steps = 10000;  // The error is counted in so many equal ones, rounded up.
};

struct LevelChoice {
  std::vector<std::size_t> levels;  // By layer.
  double bytes = 0;                 // Of all layers.
  double error = 0;                 // In the metric, and so is
  double allowed_error = 0;         // what it is not above if anything fits.
  double mean_error = 0;            // As these, of the mean.
  double allowed_mean_error = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_LEVELS_H_
