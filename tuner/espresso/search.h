// The search for the strategy that makes a step shortest.
#ifndef TUNER_ESPRESSO_SEARCH_H_
#define TUNER_ESPRESSO_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "tuner/espresso/trial.h"

namespace ringpress::espresso {

/// A gain smaller than this part of the step is none: what sums of times may be off by.
inline constexpr double kNoGain = 1e-9;

/// Of so few tensors all combinations of what they may do are tried, as far as the events last, and
/// of so many compressed ones all ways to share them between GPU and CPU.
inline constexpr std::size_t kFewTensors = 12;

/// Of so few the best is found: of 2 000 random jobs of six none took more than 8 million events.
inline constexpr std::size_t kFewestTensors = 6;

/// Events of simulated timelines that a search may take, some 15 ns each. Then it ends with what it
/// has found. Few tensors have more, as all combinations are to be tried for them.
inline std::uint64_t most_events(const Trial& trial) {
  const std::size_t tensors = trial.strategy().size();
  if (tensors <= kFewestTensors) return 20'000'000;
  return tensors <= kFewTensors ? 330'000 : 90'000 + 5'000 * tensors;
}

/// Stage 2: moves codecs to the CPU where that makes the step shorter. With few tensors to move,
/// the result is the best of all. Else it is the paper's algorithm 2: of the tensors of one size
/// that take the same candidate the first in backward go, which have the most time to hide the
/// CPU's slowness, and only counts are searched, all combinations of them if those are few, else
/// those of one group after the other until nothing changes or half of the events of a search are
/// spent.
void offload(Trial* trial, std::size_t few_tensors = kFewTensors);

/// Stage 3: takes what makes the step shorter if several tensors change at once. Of a job of up to
/// kFewTensors every subset of up to three tensors is tried, then all of them at once, which is the
/// best of all unless the work is spent before; of a larger one those that are next to each other
/// in backward, or among those of their size.
void improve_together(Trial* trial);

/// Leaves the trial with the best strategy found. `job` is the one of the trial.
void search(const Job& job, Search kind, Trial* trial);

}  // namespace ringpress::espresso

#endif  // TUNER_ESPRESSO_SEARCH_H_
