// How the calls of a communicator that are planned begin and end.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_CALL_STARTER_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_CALL_STARTER_H_

#include <chrono>
#include <cstdint>

#include "nccl_plugin/interposer/calls/call.h"
#include "nccl_plugin/interposer/comm/call_planner.h"
#include "nccl_plugin/interposer/comm/parts.h"
#include "nccl_plugin/session/calls/slice_turns.h"
#include "nccl_plugin/session/live/call_watch.h"

namespace ringpress::nccl_plugin::interposer {

/// Where a communicator is in what its calls go through by turns. Equal on all ranks.
struct CallTurns {
  std::uint64_t calls = 0;  // Compressed so far: random bits are drawn by the number of a call.
  SliceTurns slices;        // Of calls that are projected.
};

/// Of one communicator. One thread at a time.
class CallStarter {
 public:
  CallStarter(CommParts& parts, CallPlanner& planner)
      : parts_(parts), planner_(planner), turns_{0, SliceTurns(parts.sequence)} {}

  /// What a call that CallPlanner::plan() has accepted needs. Fails for want of memory only if it
  /// needs_agreement(); any other error ends the communicator.
  Result<StreamCallPointer> start(const PlannedCall& planned);
  /// Of the call that start() began last, once it has ended: why it was made exactly, or put off.
  const WhyExact& exact_because() const { return exact_because_; }

  /// Counts an accepted call that was left to the real library in the end.
  void count_exact(const WhyExact& why) { parts_.count_exact(why); }
  /// That a call could not begin, as this error says: lives as long as the communicator.
  WhyExact why_not_begun(const Status& error) { return parts_.statistics.why_not_begun(error); }
  /// After a call's last step. `taken`: since its first began.
  void finish(const StreamCall& call, std::chrono::nanoseconds taken) {
    const std::uint64_t scaled = parts_.scales == nullptr ? 0 : parts_.scales->scaled_calls();
    parts_.statistics.count_sent({call.raw_bytes(), call.sent_bytes(), taken, parts_.kept_bytes(),
                                  scaled, follows_calls(parts_.settings)});
  }

  CallTurns& turns() { return turns_; }

  /// Of calls that may be put off, which there are only where this is.
  StreamLazy& lazy() { return *parts_.lazy; }
  /// Such a call is sent after all: begins what it comes to. `call`: as it is sent. An error ends
  /// the communicator.
  Result<StreamCallPointer> start_sent(const Call& call);
  /// Such a call is not sent.
  void pass_put_off(const Call& call);

 private:
  Result<StreamCallPointer> start_lazily(const PlannedCall& planned);
  Result<StreamCallPointer> start_planned(const PlannedCall& planned);
  Result<StreamCallPointer> start_of_step(const PlannedCall& planned);
  Result<StreamCallPointer> start_in_turn(const PlannedCall& planned);
  Result<StreamCallPointer> start_compressed(const PlannedCall& planned);
  Result<StreamCallPointer> start_settled(const PlannedCall& planned);
  StreamCallPointer start_exactly(const PlannedCall& planned, ExactReason reason);
  StreamCallPointer trace(const PlannedCall& planned, StreamCallPointer call);
  StreamCallParts make_parts(const Call& call, const Decision& decision, Way way);
  Status find_memory(const Call& call, const Decision& decision, Way way, StreamCallParts* parts,
                     ProjectionParts* projection);
  HostParts host_parts(const Call& call) const;

  CommParts& parts_;
  CallPlanner& planner_;
  WhyExact exact_because_;
  CallTurns turns_;
  SliceTurn turn_;  // Of the last call that was projected.
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_CALL_STARTER_H_
