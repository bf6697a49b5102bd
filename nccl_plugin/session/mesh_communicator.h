// The engine's communicator: a mesh, the codecs and collectives that calls go through, the planner
// that decides on them, and what is kept from call to call. Calls are made by one thread at a time.
#ifndef NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_
#define NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nccl_plugin/session/block_pool.h"
#include "nccl_plugin/session/calls/codec_cache.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/calls/exact_calls.h"
#include "nccl_plugin/session/calls/layer_hints.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/calls/recurrences.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "nccl_plugin/session/lazy/lazy_votes.h"
#include "nccl_plugin/session/mesh_peers.h"
#include "nccl_plugin/session/ring_topology.h"
#include "nccl_plugin/session/steps/steps_of_calls.h"
#include "nccl_plugin/session/tuning/step_levels.h"
#include "nccl_plugin/session/tuning/tuned_calls.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/collective.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/mesh.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/transport.h"

namespace ringpress::nccl_plugin {

// What a call keeps in one piece and is larger goes back to the heap when it ends: what the ranks
// agree on for tensors of more than some ten million values.
constexpr std::size_t kLargestKeptBlock = 1024 * 1024;

class MeshCommunicator final : public Communicator, private CallAdvisers {
 public:
  MeshCommunicator(std::unique_ptr<Mesh> mesh, const Settings& settings);
  /// Writes the statistics and the trace, if the settings name files for them.
  ~MeshCommunicator() override;

  /// Before the first call, on all ranks: gives the ring the order that the topology asks for.
  Status arrange_ring(const RingTopology& topology);
  /// For rules that ask for nodes. Collective; before the first call, if at all.
  Status count_hosts();

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void set_timeout(std::chrono::milliseconds timeout) override { mesh_->set_timeout(timeout); }

  Status all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                    Reduction reduction) override;
  Status start_pieces(const PiecewiseTensor& tensor) override;
  Status all_reduce_piece(const void* send, void* receive, std::size_t first,
                          std::size_t count) override;
  Status reduce_scatter(const void* send, void* receive, std::size_t receive_count, DType dtype,
                        Reduction reduction) override;
  Status all_gather(const void* send, void* receive, std::size_t send_count, DType dtype) override;
  Status broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                   int root) override;
  Status reduce(const void* send, void* receive, std::size_t count, DType dtype,
                Reduction reduction, int root) override;
  Status exchange(std::span<const Transfer> transfers) override;
  Status set_layers(const HintedCall& call, std::span<const Layer> layers) override;
  Status flush_lazy() override;
  Result<std::unique_ptr<Communicator>> split(int color, int key,
                                              const Settings& settings) override;
  Result<UniqueId> survivors_id(std::span<const int> survivors) override {
    return mesh_->survivors_id(survivors);
  }
  Status finalize() override;
  void abort() override;
  Status failure() const override { return mesh_->failure(); }
  Status check() override { return mesh_->check(); }
  Statistics statistics() const override { return *statistics_at(ReportTime::kEnd); }
  std::optional<Statistics> statistics_at_exit() const override {
    return statistics_at(ReportTime::kExit);
  }

 private:
  /// Everything that a call needs, decided before its first byte moves.
  struct Preparation {
    CollectiveContext context;
    const Collective* collective = nullptr;
    Decision decision;
    std::uint64_t raw_bytes = 0;
    Clock::time_point started;
  };
  /// What an all-reduce takes, and what its tensor is known by.
  struct Sent {
    const void* values = nullptr;
    const void* address = nullptr;  // The program's send buffer.
  };
  /// The tensor whose pieces are being reduced.
  struct Pieces {
    PiecewiseTensor tensor;
    Decision decision;
    const NamedCodec* codec = nullptr;  // Null: start_pieces() has not been called.
    float* residual = nullptr;          // Of tensor.count floats, or null.
  };

  Status check_usable() const;
  template <typename Decide>
  Status decide(Decide&& decide);
  std::optional<PlannedStepCall> step_of(const PlanRequest& request,
                                         const Decision& planned) override;
  Result<std::optional<TunedChoice>> tuned_for(const PlanRequest& request,
                                               const Decision& decision) override;
  Result<std::string_view> level_of(const PlanRequest& request, const Decision& decision) override;
  Result<CodecLimits> limits_of(const PlanRequest& request, const Decision& decision) override;
  Status explain(const Status& status, const PlanRequest& request) const;
  Status add_parts(Preparation* call);
  Result<Preparation> prepare(CollectiveKind kind, std::size_t count, DType dtype,
                              Reduction reduction, int root);
  Preparation prepare_decided(const Decision& decision, const NamedCodec& codec,
                              const CallSignature& signature, Reduction reduction);
  Result<Decision> decide_pieces(const PiecewiseTensor& tensor);
  Result<const NamedCodec*> codec_for(std::string_view specification, DType dtype, ReduceOp op);
  void recall(Preparation* call, const Sent& sent, std::size_t count);
  PlanRequest make_request(CollectiveKind kind, std::size_t count, DType dtype,
                           Reduction reduction) const;
  bool may_be_put_off(std::size_t count, DType dtype, Reduction reduction) const;
  Result<LazyCalls::Decision> ask_lazy(const TensorCall& tensor, const void* values);
  Status conclude_lazy();
  void write_report(ReportTime time);
  std::optional<Statistics> statistics_at(ReportTime time) const;
  Status all_reduce_now(const Sent& sent, void* receive, std::size_t count, DType dtype,
                        Reduction reduction);
  void find_residual(Preparation* call, const TensorCall& tensor);
  Status finish(const Preparation& call, Status status);
  Status hear_of_step();
  void choose_collectives(StepWord* word) const;
  Status run_timed(const Preparation& call, const AllReduceArgs& args);
  Status run_alone(const Preparation& call, const void* send, void* receive, std::size_t count);
  CallSignature pair_signature(const Transfer& transfer);

  // The mesh is given up by finalize(); abort() from another thread may still use it, so it is
  // destroyed only with the communicator or under `finalized_`.
  std::unique_ptr<Mesh> mesh_;
  // Of the calls, which are made by one thread at a time. Keeps as much as the largest one needed.
  BlockPool call_memory_{kLargestKeptBlock};
  const int rank_;
  const int size_;
  const Settings settings_;
  std::unique_ptr<Planner> planner_;
  const std::shared_ptr<CallSequence> call_sequence_ = std::make_shared<CallSequence>();
  std::optional<TensorCall> under_way_;  // The all-reduce of which nobody has been told yet.
  ErrorFeedback feedback_;
  LayerHints hints_;
  const bool all_reduces_only_;
  bool crosses_hosts_ = false;
  int hosts_ = 0;  // 0: not counted.
  std::atomic<bool> finalized_{false};
  std::uint64_t sequence_ = 0;
  CodecCache<NamedCodec> codecs_;
  Recurrences recurrences_;
  Recurrences projected_;  // Of calls that are projected alone.
  StepsOfCalls steps_;
  std::map<std::pair<int, bool>, std::uint64_t> transfers_;  // By peer and direction.
  Pieces pieces_;
  MeshPeers peers_;
  std::unique_ptr<tuning::TunedCalls> tuned_;   // Null: nothing is left to be chosen.
  bool is_tuned_ = false;                       // The last call.
  std::unique_ptr<LazyCalls> lazy_;             // Null: no call is put off,
  std::unique_ptr<LazyVotes> lazy_votes_;       // or voted on.
  std::unique_ptr<tuning::StepLevels> levels_;  // Null: calls have no bits of their own.
  bool is_measured_ = false;                    // The last call's values, for levels_.
  std::span<const tuning::LeveledPart> parts_;  // Of the last call, if it has several codecs,
  std::vector<CodecPart> codec_parts_;          // and the same with their codecs.
  std::unique_ptr<Collective> ring_;
  const std::unique_ptr<Collective> sra_;
  mutable std::mutex statistics_mutex_;
  Statistics statistics_;   // But for what is exact, and why:
  ExactCalls exact_calls_;  // these.
  EndReport report_;        // The last: it reads the others.
};

/// What the ranks decide together. After an error, or for want of memory, they may no longer know
/// the same.
template <typename Decide>
Status MeshCommunicator::decide(Decide&& decide) {
  try {
    const Status status = decide();
    if (!status.is_ok()) mesh_->abort(status);
    return status;
  } catch (...) {
    mesh_->abort({Code::kSystem, "rank " + std::to_string(rank_) + " ran out of memory"});
    throw;
  }
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_
