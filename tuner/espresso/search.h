// The search for the strategy that makes a step shortest.
#ifndef TUNER_ESPRESSO_SEARCH_H_
#define TUNER_ESPRESSO_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "tuner/espresso/trial.h"

namespace ringpress::espresso {

/// A gain smaller than this part of the step is none: what sums of times may be off by.
inline constexpr double kNoGain = 1e-9;

/// Events of simulated timelines that a search may take, some 15 ns each. Then it ends with what it
/// has found.
inline std::uint64_t most_events(const Trial& trial) {
  return 120'000 + 5'500 * trial.strategy().size();
}

/// Up to so many compressed tensors, all ways to share them between GPU and CPU are tried.
inline constexpr std::size_t kFewTensors = 12;

/// Stage 2: moves codecs to the CPU where that makes the step shorter. With few tensors to move,
/// the result is the best of all. Else it is the paper's algorithm 2: of the tensors of one size
/// that take the same candidate the first in backward go, which have the most time to hide the
/// CPU's slowness, and only counts are searched, all combinations of them if those are few, else
/// those of one group after the other until nothing changes or half of the events of a search are
/// spent.
void offload(Trial* trial, std::size_t few_tensors = kFewTensors);

/// Leaves the trial with the best strategy found. `job` is the one of the trial.
void search(const Job& job, Search kind, Trial* trial);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_SEARCH_H_
