#include "nccl_plugin/session/mesh/mesh_session.h"

#include <cstdio>
#include <utility>

#include "compress_kernels/factory.h"
#include "nccl_plugin/session/live/timed_codec.h"
#include "nccl_plugin/session/live/timed_mesh.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin {
namespace {

CommShape shape_of(const Mesh& mesh, const Settings& settings) {
  CommShape shape;
  shape.world = shape.comm_ranks = mesh.size();
  for (int peer = 0; peer < mesh.size(); ++peer) shape.crosses_hosts |= !mesh.is_local(peer);
  shape.all_reduces_only = compress_kernels::projects(usual_codec(settings));
  return shape;
}

std::unique_ptr<CallWatch> watch_of(const Mesh& mesh, const Settings& settings) {
  const NvtxDomain* const nvtx = NvtxDomain::find(settings);
  if (!follows_calls(settings) && nvtx == nullptr) return nullptr;
  std::string name = settings.comm_name.value_or("");
  if (name.empty()) {
    char number[16];
    std::snprintf(number, sizeof number, "%08x", static_cast<unsigned>(mesh.root_word()));
    name = number;
  }
  return std::make_unique<CallWatch>(std::move(name), mesh.size(), !settings.timeline.empty(),
                                     nvtx);
}

std::unique_ptr<Mesh> watched(std::unique_ptr<Mesh> mesh, CallWatch* watch) {
  if (watch == nullptr) return mesh;
  return std::make_unique<TimedMesh>(std::move(mesh), *watch);
}

}  // namespace

Result<LazyCalls::Decision> VotedCalls::ask(const TensorCall& tensor, const void* values) {
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote own, calls.vote(tensor, values));
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, votes.cast(tensor, own));
  return calls.follow(largest);
}

Status VotedCalls::conclude() {
  RINGPRESS_ASSIGN_OR_RETURN(const LazyVote largest, votes.conclude());
  return calls.conclude(largest);
}

MeshSession::MeshSession(std::unique_ptr<Mesh> of_ranks, const Settings& with_settings)
    : watch(watch_of(*of_ranks, with_settings)),
      mesh(watched(std::move(of_ranks), watch.get())),
      settings(with_settings),
      planner(tuner::make_planner(settings)),
      shape(shape_of(*mesh, settings)),
      feedback(settings.feedback_limit_bytes, host_residual_memory(), call_sequence),
      peers(*mesh, call_memory, sequence) {
  if (!LazyCalls::is_wanted(settings)) return;
  lazy.reset(new VotedCalls{LazyCalls(settings, host_lazy_memory(), rank(), size(), call_sequence),
                            LazyVotes(*mesh, sequence)});
}

Result<NamedCodec> make_watched_codec(const std::string& specification, DType dtype, ReduceOp op,
                                      CallWatch* watch) {
  RINGPRESS_ASSIGN_OR_RETURN(NamedCodec named, make_named_codec(specification, dtype, op));
  if (watch == nullptr) return named;
  named.codec = std::make_unique<TimedCodec>(std::move(named.codec), *watch);
  if (named.scaled != nullptr) {
    named.scaled = std::make_unique<TimedCodec>(std::move(named.scaled), *watch);
  }
  return named;
}

/// Other ranks may have made another call, which is then found out in a call of ours: this says of
/// which of the program's it was the beginning.
Status named_by(const PlanRequest& request, const Status& status) {
  if (status.code() != Code::kMismatch) return status;
  return {Code::kMismatch, status.message() + " (while the ranks agreed on how to make the " +
                               collective_name(request.kind) + " of " +
                               std::to_string(request.count) + " " + dtype_name(request.dtype) +
                               " that this rank is at)"};
}

Status MeshSession::check_usable() const {
  if (is_finalized) return {Code::kInvalidUsage, "the communicator was finalized"};
  return mesh->failure();
}

}  // namespace ringpress::nccl_plugin
