// The all-reduces of a communicator over a mesh: of whole tensors, with what is kept of them.
#ifndef NCCL_PLUGIN_SESSION_MESH_ALL_REDUCES_H_
#define NCCL_PLUGIN_SESSION_MESH_ALL_REDUCES_H_

#include <cstddef>

#include "nccl_plugin/session/mesh/call_maker.h"
#include "nccl_plugin/session/mesh/mesh_session.h"
#include "nccl_plugin/session/mesh/piece_calls.h"

namespace ringpress::nccl_plugin {

/// Of one communicator.
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

  bool may_be_put_off(std::size_t count, DType dtype, const Reduction& reduction) const;
  Status put_off(const TensorCall& tensor, void* receive);
  Status run_now(const Sent& sent, void* receive, std::size_t count, DType dtype,
                 const Reduction& reduction);
  void recall(PreparedCall* call, const Sent& sent, std::size_t count);
  void find_residual(PreparedCall* call, const TensorCall& tensor);
  Status run_timed(const PreparedCall& call, const AllReduceArgs& args);

  MeshSession& session_;
  CallMaker& calls_;
  PieceCalls pieces_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_ALL_REDUCES_H_
