// The engine's communicator: calls over a mesh, each decided on and counted alike (mesh/).
#ifndef NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_
#define NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "nccl_plugin/session/mesh/call_maker.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/mesh/mesh_state.h"
#include "nccl_plugin/session/mesh/piece_calls.h"
#include "nccl_plugin/session/ring_topology.h"
#include "ringpress/internal/communicator.h"

namespace ringpress::nccl_plugin {

/// The all-reduces of one communicator: of whole tensors, with what is kept of them.
class AllReduces {
 public:
  AllReduces(MeshSession& session, CallMaker& calls)
      : session_(session), calls_(calls), pieces_(session, calls) {}

  /// As Communicator::all_reduce().
  Status run(const void* send, void* receive, std::size_t count, DType dtype,
             const Reduction& reduction);
  /// Tensors whose pieces come one after the other.
  PieceCalls& pieces() { return pieces_; }

 private:
  /// What a call takes, and what its tensor is known by.
  struct Sent {
    const void* values = nullptr;
    const void* address = nullptr;  // The program's send buffer.
  };

  Status put_off(const TensorCall& tensor, void* receive);
  Status run_now(const Sent& sent, void* receive, std::size_t count, DType dtype,
                 const Reduction& reduction);
  Status recall(PreparedCall* call, const Sent& sent, std::size_t count);
  void find_residual(PreparedCall* call, const TensorCall& tensor);
  Status run_timed(const PreparedCall& call, const AllReduceArgs& args);

  MeshSession& session_;
  CallMaker& calls_;
  PieceCalls pieces_;
};

class MeshCommunicator final : public Communicator {
 public:
  MeshCommunicator(std::unique_ptr<Mesh> mesh, const Settings& settings)
      : session_(std::move(mesh), settings) {}

  /// Before the first call, on all ranks: gives the ring the order that the topology asks for, and
  /// counts the hosts, if a rule asks for nodes.
  Status arrange(const RingTopology& topology);

  int rank() const override { return session_.rank(); }
  int size() const override { return session_.size(); }
  void set_timeout(std::chrono::milliseconds timeout) override {
    session_.mesh->set_timeout(timeout);
  }

  Status all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                    Reduction reduction) override;
  PiecewiseAllReduce& pieces() override { return all_reduces_.pieces(); }
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
  CommunicatorState* state() override { return &state_; }
  Result<UniqueId> survivors_id(std::span<const int> survivors) override {
    return session_.mesh->survivors_id(survivors);
  }
  Status finalize() override;
  void abort(End end) override;
  Status failure() const override { return session_.mesh->failure(); }
  Status check() override { return session_.mesh->check(); }
  std::optional<Statistics> statistics_at(ReportTime time) const override {
    return calls_.statistics_at(time);
  }
  /// What its calls do now; null: nobody follows them.
  CallWatch* watch() const { return session_.watch.get(); }

 private:
  MeshSession session_;
  CallMaker calls_{session_};
  AllReduces all_reduces_{session_, calls_};
  MeshState state_{session_, calls_};
};

/// As Communicator::create().
Result<std::unique_ptr<MeshCommunicator>> join_mesh(
    const UniqueId& id, int rank, int size, const Settings& settings,
    std::chrono::milliseconds join_timeout = std::chrono::milliseconds(0));

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_COMMUNICATOR_H_
