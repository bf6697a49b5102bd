// All-reduces of a tensor whose pieces come one after the other.
#ifndef NCCL_PLUGIN_SESSION_MESH_PIECE_CALLS_H_
#define NCCL_PLUGIN_SESSION_MESH_PIECE_CALLS_H_

#include <cstddef>

#include "nccl_plugin/session/mesh/call_maker.h"
#include "nccl_plugin/session/mesh/mesh_session.h"

namespace ringpress::nccl_plugin {

/// Of one communicator.
class PieceCalls final : public PiecewiseAllReduce {
 public:
  PieceCalls(MeshSession& session, CallMaker& calls) : session_(session), calls_(calls) {}

  Status start(const PiecewiseTensor& tensor) override;
  Status run(const void* send, void* receive, std::size_t first, std::size_t count) override;

 private:
  PlanRequest request_of_whole(const PiecewiseTensor& tensor) const;
  Result<CallClass> classify(const PiecewiseTensor& tensor, const PlanRequest& request);
  Result<Decision> decide_next(std::size_t count);
  Status check(std::size_t first, std::size_t count) const;

  MeshSession& session_;
  CallMaker& calls_;
  PiecewiseTensor tensor_;
  Decision decision_;  // On the tensor.
  bool has_started_ = false;
  float* residual_ = nullptr;  // Of tensor_.count floats, or null.
  float* usual_residual_ = nullptr;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_PIECE_CALLS_H_
