// What all calls of a communicator have in common, and the planner's question about one of them.
#ifndef NCCL_PLUGIN_SESSION_CALLS_COMM_SHAPE_H_
#define NCCL_PLUGIN_SESSION_CALLS_COMM_SHAPE_H_

#include <cstddef>
#include <span>

#include "ringpress/internal/algorithms.h"
#include "ringpress/internal/call_options.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"
#include "ringpress/internal/types.h"

namespace ringpress::nccl_plugin {

/// Equal on all ranks. Its fields are those of a PlanRequest.
struct CommShape {
  int world = 1;
  bool crosses_hosts = false;
  bool all_reduces_only = false;
  bool may_gather = false;
  int ranks_per_host = 0;
  int comm_nodes = 0;
  int comm_ranks = 0;
  bool in_streams = false;
};

/// Of a communicator that has not been split: its ranks are on these hosts.
CommShape comm_shape_of(const Settings& settings, std::span<const int> hosts);

/// The same of one whose calls are work in streams, and the ranks of a host if each has as many:
/// `hier` is at hand if the communicator is split so.
CommShape stream_shape_of(const Settings& settings, std::span<const int> hosts);
/// Whether a communicator of that shape is to be split for `hier`: for calls that no rule is for.
bool wants_host_groups(const Settings& settings, const CommShape& comm);

/// About a call on a tensor of `count` elements in all. It has not come before.
inline PlanRequest request_of(const CommShape& comm, CollectiveKind kind, std::size_t count,
                              DType dtype, const Reduction& reduction = {}) {
  PlanRequest request;
  request.kind = kind;
  request.count = count;
  request.dtype = dtype;
  request.op = reduction.op;
  request.pre_multiplied = reduction.pre_multiplied;
  request.world = comm.world;
  request.crosses_hosts = comm.crosses_hosts;
  request.all_reduces_only = comm.all_reduces_only;
  request.may_gather = comm.may_gather;
  request.ranks_per_host = comm.ranks_per_host;
  request.comm_nodes = comm.comm_nodes;
  request.comm_ranks = comm.comm_ranks;
  request.in_streams = comm.in_streams;
  return request;
}

/// An all-reduce that has every reason to be compressed, whatever rules say of its size.
inline PlanRequest largest_request(const CommShape& comm) {
  PlanRequest request =
      request_of(comm, CollectiveKind::kAllReduce, std::size_t{1} << 40, DType::kFloat32);
  request.call_class = CallClass::kGradient;
  return request;
}

/// The same of a call with these options; null: it has none.
inline PlanRequest with_options(PlanRequest request, const CallOptions* options) {
  if (options == nullptr || options->codec.empty()) return request;
  request.codec = options->codec;
  request.all_reduces_only = options->all_reduces_only;
  return request;
}

/// Elements of the whole tensor, of which a call names `count`: where each rank has a shard, that.
inline std::size_t whole_count(CollectiveKind kind, std::size_t count, int world) {
  const bool is_shard =
      kind == CollectiveKind::kReduceScatter || kind == CollectiveKind::kAllGather;
  return is_shard ? count * static_cast<std::size_t>(world) : count;
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_COMM_SHAPE_H_
