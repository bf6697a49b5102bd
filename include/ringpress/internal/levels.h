// How many bits, or what density or rank, each layer is compressed with: the fewest bytes whose
// error is not above that of one setting for all. L-GreCo (Markov, Alimohammadi, Frantar, Alistarh,
// MLSys 2024), section 3; its released code is what defaults follow.
#ifndef RINGPRESS_INTERNAL_LEVELS_H_
#define RINGPRESS_INTERNAL_LEVELS_H_

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace ringpress {

/// Errors that each have a budget of their own: of a call, of the mean over calls, now and later.
inline constexpr std::size_t kErrorBudgets = 6;
using LevelErrors = std::array<double, kErrorBudgets>;

/// What one level of compression makes of a layer.
struct LevelCost {
  double bytes = 0;  // That are sent.
  LevelErrors
      errors{};  // l2 norms of what is lost. Infinity: not to be chosen. 0 everywhere: none.
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
  LevelErrors errors{};             // In the metric, and so is
  LevelErrors allowed_errors{};     // Errors are not above these if anything fits.
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_LEVELS_H_
