// What is chosen for calls of one size, and how it is found out which choice takes least. Pure:
// tables and measured times in, choices out; nothing here measures or sends.
#ifndef RINGPRESS_INTERNAL_TUNING_H_
#define RINGPRESS_INTERNAL_TUNING_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ringpress/internal/cost_model.h"
#include "ringpress/internal/types.h"

namespace ringpress {

/// How a call is made.
struct Choice {
  std::size_t codec = 0;  // In a list that all ranks have; its first one is `none`.
  Algorithm algorithm = Algorithm::kSra;
  std::size_t chunk_bytes = 0;  // Of values, uncompressed; 0: the collective chooses.

  bool operator==(const Choice&) const = default;
  bool is_exact() const { return codec == 0; }
};

/// A choice and what is predicted of it.
struct Candidate {
  Choice choice;
  double seconds = 0;
};

/// What a communicator's links and codecs do, as measured, equal on all ranks.
struct Calibration {
  LinkSpeed link;                  // Between hosts.
  std::vector<CodecSpeed> codecs;  // `none` first; none has more error than the budget.
  LinkSpeed inside = {};           // Of hosts of several ranks.
};

/// How much may be tried.
struct TuningLimits {
  std::uint32_t warm_up_calls = 3;  // Of a trial, which do not count.
  std::uint32_t calls = 10;         // Of a trial, which do: what they typically take counts.
  std::uint32_t trials = 20;
  // Then no codec and the best one, where they are near each other, have longer ones in turn: what
  // a link lets through at once after a pause hides in ten calls what it does in the long run.
  std::uint32_t rematches = 4;
  std::uint32_t rematch_warm_up_calls = 50;
  std::uint32_t rematch_calls = 30;
  // Slow calls are made less often, but twice at least: so long may a trial last.
  double trial_seconds = 0.5;
  // A choice is left only for one that takes less than so much of its time.
  double worth_switching = 0.97;
  // What is settled is looked at again when calls take more or less by this factor for a while.
  double drift = 1.5;
};

/// What all ranks do in the next calls.
struct Trial {
  Choice choice;
  std::uint32_t calls = 0;  // Then something new is announced, or the same again.
  bool is_settled = false;
};

/// Why a trial was made or a choice taken, for the log.
enum class TuningEvent { kTried, kSettled, kDrifted };

/// A line of the log.
struct TuningNote {
  TuningEvent event = TuningEvent::kTried;
  Choice choice;
  std::uint32_t calls = 0;       // That were measured.
  double seconds = 0;            // As they typically take.
  double predicted_seconds = 0;  // 0: there is no prediction.
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_TUNING_H_
