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
  /// `steps_until_heard`: so many steps after a vote its result counts. 0: at the vote itself.
  explicit ClassVote(std::size_t steps_until_heard = 0) : steps_until_heard_(steps_until_heard) {}

  /// The next call of the step is made.
  void note(const CallEvidence::Seen& seen, const ValueSample& values);
  /// Steps of so many calls repeat from the next one on. `is_open`: they are voted on.
  void begin_steps(std::size_t period, bool is_open);
  /// No call was noted.
  void skip_call() { is_due_ = is_result_due_ = has_room_ = false; }
  /// A call breaks off the step.
  void break_step() { evidence_.forget_calls(); }

  /// Before anything is done with the last call.
  bool is_due() const { return is_due_; }
  /// Where votes travel: whether a result counts from the last call on, or may from the next one.
  bool is_result_due() const { return is_result_due_; }
  bool may_be_heard_next() const { return is_open_ && calls_ + 1 == heard_at(); }
  /// What this rank says. `usual`: before it has seen enough.
  ClassBallot answer(const ClassBallot& usual) const {
    return evidence_.is_enough() ? evidence_.ballot(usual) : usual;
  }
  /// They have voted and heard the result, and vote again after twice as many calls.
  void end();

  /// Of the next call, just before they vote.
  bool wants_values() const;
  /// Whether the last call's are wanted still.
  bool has_room_for_values() const { return has_room_; }
  void complete_values(const ValueSample& values) { evidence_.values().complete_last(values); }

 private:
  std::size_t heard_at() const { return next_ + steps_until_heard_ * period_; }

  const std::size_t steps_until_heard_;
  CallEvidence evidence_;
  std::size_t period_ = 0;
  std::size_t calls_ = 0;  // Since the step was believed.
  std::size_t next_ = 0;   // At so many of them the ranks vote.
  bool is_open_ = false, is_due_ = false, is_result_due_ = false, has_room_ = false;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CLASS_VOTE_H_
