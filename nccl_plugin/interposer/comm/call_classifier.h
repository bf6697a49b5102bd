// What the calls of a communicator are: classes, which its ranks vote on (call_classes.h).
//
// Within a group calls are accepted whose turn comes later. A vote counts from a call on whose
// number all ranks know. Nothing is decided on that call, and on those accepted behind it, before
// its turn: another rank may make the calls of the group one by one.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_CALL_CLASSIFIER_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_CALL_CLASSIFIER_H_

#include <chrono>
#include <cstddef>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/comm/parts.h"
#include "nccl_plugin/session/calls/call_classes.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator. One thread at a time.
class CallClassifier {
 public:
  explicit CallClassifier(CommParts& parts);

  // `request`: CommPolicy::request() of the call, whose class is not known yet.

  /// Whether nothing is to be decided on a call that the program makes before its turn, which
  /// begin_turn() tells of.
  bool must_wait(const PlanRequest& request, PlannedCall* planned);
  /// Its turn: what the ranks have voted counts from it on, if it is such a call. May wait, as
  /// StreamVotes::receive() does.
  Status begin_turn(const PlanRequest& request, PlannedCall* planned);
  /// What is known so far.
  CallClasses& classes() { return classes_; }
  /// The turns of those that wait never come.
  void forget_waiting() { waiting_ = 0; }

  /// A call that does not wait is made: notes whether the ranks vote with it.
  void observe(const PlanRequest& request, PlannedCall* planned);
  /// Fills in what it is, as far as is known. A captured call is what such calls have been before.
  void classify(const PlanRequest& request, PlannedCall* planned) const;
  /// This rank's vote goes ahead of a call that has begun. May wait, as StreamVotes::send() does.
  Status add_vote(const Call& call, StreamCallPointer* started);

 private:
  Status hear(Stream stream);
  CallEvidence::Seen see(const Call& call);

  CommParts& parts_;
  CallClasses classes_;
  std::size_t waiting_ = 0;  // Accepted calls.
  std::chrono::steady_clock::time_point last_call_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_CALL_CLASSIFIER_H_
