// Every combination of what some tensors may do, by branch and bound.
#ifndef TUNER_ESPRESSO_ENUMERATION_H_
#define TUNER_ESPRESSO_ENUMERATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tuner/espresso/trial.h"

namespace ringpress::espresso {

/// A tensor, and which of its candidates are tried.
struct Site {
  std::size_t tensor = 0;
  std::vector<std::size_t> candidates;
};

/// Leaves the trial with the best of all combinations of the sites' candidates; what other tensors
/// do stays. `sites` are in the order of backward, one at least. True if that is certain: no more
/// than `most_events` were needed to try all, or to see that they take no less.
bool enumerate(const std::vector<Site>& sites, std::uint64_t most_events, Trial* trial);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_ENUMERATION_H_
