// What all calls of a communicator over a mesh have in common: what is decided before, and counted
// after them.
#ifndef NCCL_PLUGIN_SESSION_MESH_CALL_MAKER_H_
#define NCCL_PLUGIN_SESSION_MESH_CALL_MAKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/calls/slice_turns.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/live/live_report.h"
#include "nccl_plugin/session/live/said_decisions.h"
#include "nccl_plugin/session/mesh/call_advisers.h"
#include "nccl_plugin/session/mesh/class_votes.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "ring/factory.h"
#include "ringpress/internal/collective.h"

namespace ringpress::nccl_plugin {

/// Everything that a call needs, decided before its first byte moves.
struct PreparedCall {
  CollectiveContext context;
  const Collective* collective = nullptr;
  const NamedCodec* named = nullptr;  // Its codec, but for scales and parts.
  Decision decision;
  std::uint64_t raw_bytes = 0;
  Clock::time_point started;
  CoordinateScales::Chosen scales;
  float* usual_residual = nullptr;  // Kept::usual.
  bool is_looked_at = false;        // ErrorGuard compares its result.
  std::uint64_t sent_before = 0;    // By the mesh, where calls are followed.
};

/// Of one communicator.
class CallMaker {
 public:
  explicit CallMaker(MeshSession& session);
  /// Writes the statistics and the trace, if the settings name files for them.
  ~CallMaker() { reports_.end.write(); }
  CallMaker(const CallMaker&) = delete;
  CallMaker& operator=(const CallMaker&) = delete;

  ClassVotes& class_votes() { return class_votes_; }
  MeshAdvisers& advisers() { return advisers_; }
  /// Of calls that are projected.
  SliceTurns& slice_turns() { return slice_turns_; }
  CoordinateScales& scales() { return scales_; }
  /// By rank, where the ring goes.
  void set_ring_order(const std::vector<int>& order);

  /// By the whole chain of decisions. `root` -1: it has none.
  Result<PreparedCall> prepare(CollectiveKind kind, std::size_t count, DType dtype,
                               const Reduction& reduction, int root);
  /// `signature` lacks what was decided.
  PreparedCall prepare_decided(const Decision& decision, const NamedCodec& codec,
                               const CallSignature& signature, const Reduction& reduction);
  /// The call's tensor gets its scales, if it has some.
  Status add_scales(const TensorCall& tensor, PreparedCall* call);
  /// Before and after such a call: now and then it is measured what it loses. `values`: of this
  /// rank.
  Status begin_look(const TensorCall& tensor, const void* values, PreparedCall* call);
  void end_look(const TensorCall& tensor, const PreparedCall& call, const void* result);
  /// Of an all-reduce that has ended well: residuals are of the scale that gradients have next.
  void look_for_overflow(const PreparedCall& call, const void* result, std::size_t count);
  /// A communicator of one rank: the reduction of its own values alone.
  Status run_alone(const PreparedCall& call, const void* send, void* receive, std::size_t count);
  /// Counts a call that has ended.
  Status finish(const PreparedCall& call, Status status);

  /// No value: at the exit, another thread is in the middle of it.
  std::optional<Statistics> statistics_at(ReportTime time) const;

 private:
  Status add_parts(PreparedCall* call);
  void write_report(ReportTime time);

  MeshSession& session_;
  ClassVotes class_votes_;
  MeshAdvisers advisers_;
  SliceTurns slice_turns_;
  CoordinateScales scales_;
  std::vector<CodecPart> codec_parts_;  // Of the last call, if it has several codecs.
  ring::Collectives collectives_;
  SaidDecisions said_;
  RunReports reports_;  // The last: they read the others.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_CALL_MAKER_H_
