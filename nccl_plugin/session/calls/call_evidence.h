// What one rank's own buffers, pauses and values say of the sums of a step that repeats.
//
// A gradient has a buffer of its own: at each place of the step the same one each time. Activations
// take what memory is free. And gradients come in a row while the program computes backward; then
// it computes forward: one pause of the step is long. Layers compute all the time. Where all calls
// are of one size, a step may be one call or many. One call comes after even pauses; many do not,
// as computing backward takes longer than forward. Calls of a program that computes nothing, such
// as a benchmark, are taken for gradients.
//
// Sums of some sizes may be gradients and others not: evaluations every few steps, statistics. What
// has no buffers of its own, or values of something else, is left out before pauses are looked at.
// What repeats then may be shorter than the step with all of its calls.
//
// Sums that come every few steps make the step that repeats longer, and each gradient comes in it
// several times, from its one buffer. They are told by that: without them, and by nothing else, a
// shorter step repeats. They are no gradients, which come in all steps.
//
// Values are known on host memory alone (value_sample.h). Where times are not to be asked, only the
// buffers and values of a step of many sizes are enough.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_

#include <cstddef>
#include <deque>
#include <vector>

#include "nccl_plugin/session/calls/class_ballot.h"
#include "nccl_plugin/session/calls/value_sample.h"

namespace ringpress::nccl_plugin {

/// Of the last calls of one communicator. Pure: no clocks.
class CallEvidence {
 public:
  /// Equal calls of one buffer that are looked at before they are taken for gradients.
  static constexpr std::size_t kEqualCalls = 128;

  struct Seen {
    const void* address = nullptr;
    double pause_seconds = -1;  // Before it; below 0: not known.
    double call_seconds = 0;    // The call before it took.
    bool is_all_reduce = true;  // Others are of the step, and nothing else is asked of them.
    std::size_t shape = 0;      // A number of its shape.
  };

  void note(const Seen& seen);
  /// Of each call of the steps that are looked at, or of none.
  ValueEvidence& values() { return values_; }
  /// Steps of so many calls repeat from the next one on.
  void begin_steps(std::size_t period);
  /// Of what came before nothing counts any more.
  void forget_calls() {
    seen_.clear();
    values_.clear();
  }

  /// Whether anything can be said of the steps that began.
  bool is_enough() const;
  /// `usual`: what the ranks have said before.
  ClassBallot ballot(const ClassBallot& usual) const;

 private:
  std::size_t most() const;
  bool has_times() const;
  bool computes_nothing() const;
  void judge_values(ClassBallot* ballot) const;
  void judge_buffers(ClassBallot* ballot) const;
  void judge_order(const ClassBallot& usual, ClassBallot* ballot) const;
  std::vector<Seen> candidates(const ClassBallot& ballot) const;
  bool have_right_pauses(const std::vector<Seen>& calls, std::size_t period) const;

  std::deque<Seen> seen_;  // The last calls.
  ValueEvidence values_;
  std::size_t period_ = 1;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
