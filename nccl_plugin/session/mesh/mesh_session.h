// What a communicator over a mesh keeps from call to call.
#ifndef NCCL_PLUGIN_SESSION_MESH_MESH_SESSION_H_
#define NCCL_PLUGIN_SESSION_MESH_MESH_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "nccl_plugin/session/block_pool.h"
#include "nccl_plugin/session/calls/call_sequence.h"
#include "nccl_plugin/session/calls/call_statistics.h"
#include "nccl_plugin/session/calls/codec_cache.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/calls/layer_hints.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"
#include "nccl_plugin/session/lazy/lazy_votes.h"
#include "nccl_plugin/session/live/call_watch.h"
#include "nccl_plugin/session/mesh_peers.h"
#include "ringpress/internal/call_options.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/mesh.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

// What a call keeps in one piece and is larger goes back to the heap when it ends: what the ranks
// agree on for tensors of more than some ten million values.
constexpr std::size_t kLargestKeptBlock = 1024 * 1024;

/// All-reduces that may be put off, and the votes on them.
struct VotedCalls {
  LazyCalls calls;
  LazyVotes votes;

  /// What the ranks decide on a call.
  Result<LazyCalls::Decision> ask(const TensorCall& tensor, const void* values);
  /// After a call that was sent: its late votes have come, too.
  Status conclude();
};

/// A failure of a call, in which other ranks made another one: which of the program's it was part
/// of.
Status named_by(const PlanRequest& request, const Status& status);
/// `watch` not null: is told of what the codec does.
Result<NamedCodec> make_watched_codec(const std::string& specification, DType dtype, ReduceOp op,
                                      CallWatch* watch);

/// Of one communicator, whose calls are made by one thread at a time.
struct MeshSession {
  MeshSession(std::unique_ptr<Mesh> of_ranks, const Settings& with_settings);
  MeshSession(const MeshSession&) = delete;
  MeshSession& operator=(const MeshSession&) = delete;

  const std::unique_ptr<CallWatch> watch;  // Null: nobody follows the calls.
  // The mesh is given up by MeshCommunicator::finalize(); abort() from another thread may still use
  // it, so it is destroyed only with the communicator or under `is_finalized`.
  const std::unique_ptr<Mesh> mesh;
  // Of the calls. Keeps as much as the largest one needed.
  BlockPool call_memory{kLargestKeptBlock};
  const Settings settings;
  const std::unique_ptr<Planner> planner;
  CommShape shape;  // Its nodes, by which rules ask, are not known before they are counted.
  std::atomic<bool> is_finalized{false};
  std::uint64_t sequence = 0;
  const std::shared_ptr<CallSequence> call_sequence = std::make_shared<CallSequence>();
  ErrorFeedback feedback;
  LayerHints hints;
  CodecCache<NamedCodec> codecs;
  MeshPeers peers;
  std::unique_ptr<VotedCalls> lazy;                         // Null: no call is put off.
  std::map<std::pair<int, bool>, std::uint64_t> transfers;  // Numbers, by peer and direction.
  CallStatistics statistics;

  /// In Mesh::root_word(): it writes RINGPRESS_TRACE, for which ranks measure the link. The other
  /// bits are drawn anew for each communicator: they name it.
  static constexpr std::uint32_t kRootRecordsSteps = 1;

  int rank() const { return mesh->rank(); }
  int size() const { return mesh->size(); }
  Status check_usable() const;
  /// What the ranks decide together. After an error, or for want of memory, they may no longer know
  /// the same.
  template <typename Decide>
  Status decide(Decide&& decide_now);
  /// The same on a call of the program, which is named where ranks find another one in its place.
  template <typename Decide>
  Status decide_on(const PlanRequest& request, Decide&& decide_now) {
    return decide([&] {
      Status status = decide_now();
      if (!status.is_ok()) status = named_by(request, status);
      return status;
    });
  }
  /// The planner's question, with what the program says of the call that this thread makes.
  PlanRequest request(CollectiveKind kind, std::size_t count, DType dtype,
                      const Reduction& reduction) const {
    return with_options(request_of(shape, kind, whole_count(kind, count, size()), dtype, reduction),
                        CallsWithOptions::current());
  }
  Result<const NamedCodec*> codec_for(std::string_view specification, DType dtype, ReduceOp op) {
    return codecs.find_or_make(specification, dtype, op,
                               [this](const std::string& text, DType type, ReduceOp operation) {
                                 return make_watched_codec(text, type, operation, watch.get());
                               });
  }
  /// Of residuals and sums.
  std::size_t kept_bytes() const {
    return feedback.bytes() + (lazy == nullptr ? 0 : lazy->calls.bytes());
  }
};

template <typename Decide>
Status MeshSession::decide(Decide&& decide_now) {
  try {
    const Status status = decide_now();
    if (!status.is_ok()) mesh->abort(status);
    return status;
  } catch (...) {
    mesh->abort({Code::kSystem, "rank " + std::to_string(rank()) + " ran out of memory"});
    throw;
  }
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_MESH_SESSION_H_
