// Finds out, from the times of calls, what is best for calls of one kind, type and size. Rank 0 has
// one and tells the others what it says.
#ifndef RINGPRESS_INTERNAL_CALL_TUNER_H_
#define RINGPRESS_INTERNAL_CALL_TUNER_H_

#include <vector>

#include "ringpress/internal/tuning.h"

namespace ringpress {

/// One thread at a time. A trial's calls are all made as it says, and their times noted, before
/// next() is asked for.
class CallTuner {
 public:
  virtual ~CallTuner() = default;

  // Neither allocates.
  /// A call that was made uncompressed before the first trial took so long.
  virtual void note_exact(double seconds) = 0;
  /// The time of the next call of the trial under way.
  virtual void note(double seconds) = 0;
  /// What is known to be the quickest way without a codec, as measured, or else as predicted.
  virtual Choice quickest_exact() const = 0;
  /// Before the first trial: it was settled before that calls are made so. How long they take is
  /// seen from those that are noted next.
  virtual void resume(const Choice& settled) = 0;
  /// The next trial. Changes `notes` to what there is to say of the one before.
  virtual Trial next(std::vector<TuningNote>* notes) = 0;
};

}  // namespace ringpress

#endif  // RINGPRESS_INTERNAL_CALL_TUNER_H_
