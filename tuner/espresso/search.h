// The search for the strategy that makes a step shortest.
#ifndef TUNER_ESPRESSO_SEARCH_H_
#define TUNER_ESPRESSO_SEARCH_H_

#include "tuner/espresso/trial.h"

namespace ringpress::espresso {

/// A gain smaller than this part of the step is none: what sums of times may be off by.
inline constexpr double kNoGain = 1e-9;

/// The paper's algorithm 2. Of the tensors of one size that take the same candidate, the first in
/// backward go to the CPU: they have the most time to hide its slowness. So only counts are searched:
/// all combinations of them if those are few (so with 12 tensors or less), else those of one group
/// after the other until nothing changes.
void offload(Trial* trial);

/// Leaves the trial with the best strategy found. `job` is the one of the trial.
void search(const Job& job, Search kind, Trial* trial);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_SEARCH_H_
