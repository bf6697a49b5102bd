// The training step of a communicator over a mesh: rank 0's plan for it, and the link for its
// trace.
#ifndef NCCL_PLUGIN_SESSION_MESH_MESH_STEPS_H_
#define NCCL_PLUGIN_SESSION_MESH_MESH_STEPS_H_

#include <cstdint>
#include <utility>

#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/steps/steps_of_calls.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"

namespace ringpress::nccl_plugin {

/// Of one communicator; one thread at a time.
class MeshSteps {
 public:
  /// `tuned` outlives this. Null: nothing is left to be chosen.
  MeshSteps(MeshSession& session, const tuning::TunedCalls* tuned);

  StepsOfCalls& of_calls() { return steps_; }
  const StepsOfCalls& of_calls() const { return steps_; }

  /// An all-reduce of a whole tensor begins: receives rank 0's message on the step, if it is due.
  Status begin_all_reduce(const TensorCall& call);
  /// The one that began last, if nobody has been told of it yet; now somebody is. Else null.
  const TensorCall* take_untold() {
    return std::exchange(is_untold_, false) ? &under_way_ : nullptr;
  }
  /// It is compressed: if rank 0 writes a trace, the link is measured, once, as such calls may hide
  /// it.
  Status measure_link();
  /// Sent for that.
  std::uint64_t link_bytes() const { return link_bytes_; }

 private:
  Status broadcast_plan();

  MeshSession& session_;
  const tuning::TunedCalls* const tuned_;
  StepsOfCalls steps_;
  TensorCall under_way_;
  bool is_untold_ = false;
  bool wants_link_ = false;  // The same on all ranks.
  std::uint64_t link_bytes_ = 0;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_MESH_STEPS_H_
