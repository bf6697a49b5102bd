// Whether levels that RINGPRESS_ADJUST_STEPS comes to lose no more than one level for all, over
// many steps.
#ifndef PERF_LEVELS_BUDGET_H_
#define PERF_LEVELS_BUDGET_H_

#include <cstddef>
#include <string>
#include <vector>

#include "perf/levels/sums.h"

namespace ringpress::perf {

/// Steps in all, and RINGPRESS_ADJUST_STEPS.
struct BudgetRun {
  std::string codec;
  std::size_t steps = 0;
  std::string adjust_steps;
};

/// Prints a row with and without error feedback for each kind of gradients: the error of a call and
/// of the mean over all steps, and the bytes, over those of the codec for all.
/// `real`: gradients of two steps of one model, one after the other.
void measure_budgets(const BudgetRun& run, const std::vector<RankGradients>& real);

}  // namespace ringpress::perf

#endif  // PERF_LEVELS_BUDGET_H_
