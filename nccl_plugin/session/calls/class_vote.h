// When the ranks vote on a step that repeats, and what this rank says then.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CLASS_VOTE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CLASS_VOTE_H_

#include <algorithm>
#include <cstddef>

#include "nccl_plugin/session/calls/call_evidence.h"
#include "nccl_plugin/session/calls/value_sample.h"

namespace ringpress::nccl_plugin {

/// Of one communicator's all-reduces. When they vote is the same on all ranks.
class ClassVote {
 public:
  /// The next call of the step is made.
  void note(const CallEvidence::Seen& seen, const ValueSample& values);
  /// Steps of so many calls repeat from the next one on. `is_open`: they are voted on.
  void begin_steps(std::size_t period, bool is_open);
  /// No call was noted.
  void skip_call() { is_due_ = has_room_ = false; }
  /// A call breaks off the step.
  void break_step() { evidence_.forget_calls(); }

  /// Before anything is done with the last call.
  bool is_due() const { return is_due_; }
  /// What this rank says. `usual`: before it has seen enough.
  ClassBallot answer(const ClassBallot& usual) const {
    return evidence_.is_enough() ? evidence_.ballot() : usual;
  }
  /// They have voted, and do so again after twice as many calls.
  void end();

  /// Of the next call, just before they vote.
  bool wants_values() const;
  /// Whether the last call's are wanted still.
  bool has_room_for_values() const { return has_room_; }
  void complete_values(const ValueSample& values) { evidence_.values().complete_last(values); }

 private:
  CallEvidence evidence_;
  std::size_t period_ = 0;
  std::size_t calls_ = 0;  // Since the step was believed.
  std::size_t next_ = 0;   // At so many of them the ranks vote.
  bool is_open_ = false, is_due_ = false, has_room_ = false;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CLASS_VOTE_H_
