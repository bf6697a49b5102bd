// What the program's calls are for, as far as that is seen, and how the ranks agree on it.
#ifndef NCCL_PLUGIN_SESSION_MESH_CLASS_VOTES_H_
#define NCCL_PLUGIN_SESSION_MESH_CLASS_VOTES_H_

#include "nccl_plugin/session/calls/call_classes.h"
#include "nccl_plugin/session/mesh/mesh_session.h"

namespace ringpress::nccl_plugin {

/// Of one communicator; one thread at a time.
class ClassVotes {
 public:
  explicit ClassVotes(MeshSession& session);

  /// The program makes a call. `address`: of what it sends. `values`: the same, if it is host
  /// memory that may be read, or null.
  Status observe(const PlanRequest& request, const void* address, const void* values = nullptr);
  /// `count` values, on the host, of the call that was observed last without any.
  void note_values(const void* values, std::size_t count, DType dtype) {
    if (is_observed_ && classes_.next_vote().has_room_for_values()) {
      classes_.next_vote().complete_values(sample_values(values, count, dtype));
    }
  }
  /// That call has ended.
  void note_end() {
    if (is_observed_ && classes_.wants_times()) last_end_ = Clock::now();
  }

  CallClasses& classes() { return classes_; }

 private:
  MeshSession& session_;
  CallClasses classes_;
  bool is_observed_ = false;                 // The last call.
  Clock::time_point last_begin_, last_end_;  // Of those that are, where classes_ wants to know.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_CLASS_VOTES_H_
