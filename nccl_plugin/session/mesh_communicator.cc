#include "nccl_plugin/session/mesh_communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "nccl_plugin/session/calls/residual_spike.h"
#include "ring/factory.h"
#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {
namespace {

constexpr std::size_t kLargestResidual = std::numeric_limits<std::size_t>::max() / sizeof(float);

/// Without a file nothing can be wrong with the hosts, and a ring of two, or inside one of them,
/// has no other order. All of this is equal on all ranks.
bool needs_ring_order(const RingTopology& topology, const CommShape& shape) {
  if (topology.choice.by == RingOrderBy::kRanks || shape.world < 2) return false;
  return topology.is_file() || (shape.world > 2 && shape.crosses_hosts);
}

/// The host of each rank. Collective.
Result<std::vector<std::string>> gather_hosts(const std::string& own_host, MeshPeers& peers) {
  constexpr std::size_t kLongestName = 256;  // With its zero.
  std::vector<std::byte> own(kLongestName);
  std::vector<std::byte> all(own.size() * static_cast<std::size_t>(peers.size()));
  const std::string name = own_host.substr(0, kLongestName - 1);
  std::memcpy(own.data(), name.data(), name.size());
  RINGPRESS_RETURN_IF_ERROR(peers.gather(own, all));
  std::vector<std::string> hosts;
  for (std::size_t at = 0; at < all.size(); at += kLongestName) {
    hosts.emplace_back(reinterpret_cast<const char*>(&all[at]));
  }
  return hosts;
}

/// Collective.
Result<int> count_hosts(MeshPeers& peers) {
  int local = 1;
  for (int peer = 0; peer < peers.size(); ++peer) {
    local += peer != peers.rank() && peers.is_local(peer) ? 1 : 0;
  }
  float share = 1.0F / static_cast<float>(local);
  RINGPRESS_RETURN_IF_ERROR(peers.sum({&share, 1}));
  return static_cast<int>(std::lround(share));
}

/// Point-to-point calls are numbered per pair of ranks and direction: other ranks do not see them.
CallSignature pair_signature(MeshSession& session, const Transfer& transfer) {
  CallSignature call;
  call.sequence = session.transfers[{transfer.peer, transfer.is_send}]++;
  call.count = transfer.count;
  call.kind = CollectiveKind::kSendRecv;
  call.dtype = transfer.dtype;
  return call;
}

}  // namespace

Status MeshCommunicator::arrange(const RingTopology& topology) {
  if (needs_ring_order(topology, session_.shape)) {
    RINGPRESS_ASSIGN_OR_RETURN(const std::vector<std::string> hosts,
                               gather_hosts(topology.own_host, session_.peers));
    RINGPRESS_ASSIGN_OR_RETURN(std::vector<int> order, ring_order_of(topology, hosts));
    calls_.set_ring_order(order);
  }
  const auto asks_for_nodes = [](const Rule& rule) { return rule.nodes >= 0; };
  const std::vector<Rule>& rules = session_.settings.rule_list;
  if (!std::any_of(rules.begin(), rules.end(), asks_for_nodes)) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(session_.shape.comm_nodes, count_hosts(session_.peers));
  return Status::ok();
}

Status MeshCommunicator::all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                    Reduction reduction) {
  return all_reduces_.run(send, receive, count, dtype, reduction);
}

Status AllReduces::run(const void* send, void* receive, std::size_t count, DType dtype,
                       const Reduction& reduction) {
  const CallWatch::Call watched(session_.watch.get(), {CollectiveKind::kAllReduce, count, dtype});
  session_.call_sequence->begin_call();
  const PlanRequest request = session_.request(CollectiveKind::kAllReduce, count, dtype, reduction);
  RINGPRESS_RETURN_IF_ERROR(calls_.class_votes().observe(request, send, send));
  const bool is_lazy =
      session_.lazy != nullptr && may_be_put_off(session_.settings, *session_.planner, request);
  if (!is_lazy) {
    return run_now({send, send}, receive, count, dtype, reduction);
  }
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  VotedCalls& lazy = *session_.lazy;
  const TensorCall tensor{CollectiveKind::kAllReduce, count, dtype, reduction.op, send};
  CallUsers users{CallUser::kLazy};
  const bool is_keyed = name_of_call().is_key();
  if (has_error_feedback(session_.settings) && !is_keyed) users.add(CallUser::kFeedback);
  session_.call_sequence->tell(tensor, users);
  LazyCalls::Decision decision;
  RINGPRESS_RETURN_IF_ERROR(session_.decide([&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(decision, lazy.ask(tensor, send));
    return Status::ok();
  }));
  if (decision.is_put_off) return put_off(tensor, receive);
  // Others may have begun with it: a rank that does not get to its end ends the communicator.
  return session_.decide([&]() -> Status {
    const void* values = send;
    if (decision.has_sum) {
      RINGPRESS_RETURN_IF_ERROR(lazy.calls.write_sum(receive));
      values = receive;
    }
    RINGPRESS_RETURN_IF_ERROR(run_now({values, send}, receive, count, dtype, reduction));
    return lazy.conclude();
  });
}

Status AllReduces::put_off(const TensorCall& tensor, void* receive) {
  std::memset(receive, 0, tensor.count * dtype_size(tensor.dtype));
  if (has_error_feedback(session_.settings)) {  // It has its place.
    session_.feedback.pass(tensor, name_of_call());
  }
  session_.statistics.count_exact({ExactReason::kPutOff, 0, {}});
  return Status::ok();
}

Status AllReduces::run_now(const Sent& sent, void* receive, std::size_t count, DType dtype,
                           const Reduction& reduction) {
  const void* const send = sent.values;
  if (count > 0) {
    RINGPRESS_RETURN_IF_ERROR(calls_.advisers().steps().begin_all_reduce(
        {CollectiveKind::kAllReduce, count, dtype, reduction.op, sent.address}));
  }
  RINGPRESS_ASSIGN_OR_RETURN(
      PreparedCall call, calls_.prepare(CollectiveKind::kAllReduce, count, dtype, reduction, -1));
  if (count == 0) return calls_.finish(call, Status::ok());
  if (session_.size() == 1) {
    return calls_.finish(call, calls_.run_alone(call, send, receive, count));
  }
  if (!call.decision.is_exact()) {
    RINGPRESS_RETURN_IF_ERROR(calls_.advisers().steps().measure_link());
    call.started = Clock::now();
  }
  RINGPRESS_RETURN_IF_ERROR(recall(&call, sent, count));
  RINGPRESS_RETURN_IF_ERROR(
      calls_.begin_look({CollectiveKind::kAllReduce, count, dtype, reduction.op}, send, &call));
  const auto ranks = static_cast<std::uint64_t>(session_.size());
  call.raw_bytes = count * dtype_size(dtype) * 2 * (ranks - 1) / ranks;
  return calls_.finish(call, run_timed(call, {send, receive, count}));
}

Status AllReduces::run_timed(const PreparedCall& call, const AllReduceArgs& args) {
  Status status = call.collective->all_reduce(call.context, args);
  if (!status.is_ok()) return status;
  drop_spike(call.context.residual, args.count, call.usual_residual);
  CoordinateScales::learn(call.scales, args.receive);
  calls_.look_for_overflow(call, args.receive, args.count);
  const CallSignature& signature = call.context.call;
  calls_.end_look({signature.kind, args.count, signature.dtype, signature.op}, call, args.receive);
  calls_.advisers().end_all_reduce(
      {signature.kind, args.count, signature.dtype, signature.op, args.send},
      call.decision.is_given());
  return status;
}

/// What is known of the tensor from earlier calls and from hints.
Status AllReduces::recall(PreparedCall* call, const Sent& sent, std::size_t count) {
  CollectiveContext& context = call->context;
  const DType dtype = context.codec->dtype();
  const TensorCall tensor{context.call.kind, count, dtype, context.codec->op(), sent.address};
  find_residual(call, tensor);
  // It has its place all the same.
  if (session_.call_sequence->has_told(CallUser::kFeedback))
    session_.feedback.pass(tensor, name_of_call());
  if (calls_.advisers().wants_values()) {
    calls_.advisers().take_values({sent.values, context.residual, count, dtype},
                                  session_.hints.find({count, dtype, sent.address}));
    call->started = Clock::now();
  }
  return calls_.add_scales(tensor, call);
}

void AllReduces::find_residual(PreparedCall* call, const TensorCall& tensor) {
  CollectiveContext& context = call->context;
  if (context.codec->traits().lossless) return;
  ToKeep wanted{call->decision.error_feedback, 0, 0, context.codec->specification()};
  if (const Projection* const projection = context.codec->projection()) {
    context.layers = session_.hints.find({tensor.count, tensor.dtype, tensor.address});
    const TensorShape shape{tensor.count, context.layers};
    const SliceTurn turn = calls_.slice_turns().next(tensor, projection->cycle(shape));
    context.turn = turn.turn;
    if (turn.is_by_address) wanted.state_count = projection->state_count(shape);
  }
  if (!wanted.residual && wanted.state_count == 0) return;
  const Kept kept = session_.feedback.find(tensor, wanted, name_of_call());
  context.residual = kept.residual;
  call->usual_residual = kept.usual;
  context.projection_state = kept.state;
}

Status MeshCommunicator::reduce_scatter(const void* send, void* receive, std::size_t receive_count,
                                        DType dtype, Reduction reduction) {
  const CallWatch::Call watched(session_.watch.get(),
                                {CollectiveKind::kReduceScatter, receive_count, dtype});
  session_.call_sequence->begin_call();
  RINGPRESS_ASSIGN_OR_RETURN(
      PreparedCall call,
      calls_.prepare(CollectiveKind::kReduceScatter, receive_count, dtype, reduction, -1));
  if (receive_count == 0) return calls_.finish(call, Status::ok());
  if (size() == 1) return calls_.finish(call, calls_.run_alone(call, send, receive, receive_count));
  // Of what it sends to others; its own shard has none.
  const auto shards = static_cast<std::size_t>(size());
  if (call.decision.error_feedback && receive_count <= kLargestResidual / shards) {
    const TensorCall tensor{CollectiveKind::kReduceScatter, receive_count * shards, dtype,
                            reduction.op, send};
    const ToKeep wanted{true, 0, 0, call.context.codec->specification()};
    const Kept kept = session_.feedback.find(tensor, wanted, name_of_call());
    call.context.residual = kept.residual;
    call.usual_residual = kept.usual;
  }
  call.raw_bytes = receive_count * dtype_size(dtype) * static_cast<std::uint64_t>(size() - 1);
  const Status status =
      call.collective->reduce_scatter(call.context, {send, receive, receive_count});
  if (status.is_ok()) {
    drop_spike(call.context.residual, receive_count * shards, call.usual_residual);
    calls_.look_for_overflow(call, receive, receive_count);
  }
  return calls_.finish(call, status);
}

Status MeshCommunicator::all_gather(const void* send, void* receive, std::size_t send_count,
                                    DType dtype) {
  const CallWatch::Call watched(session_.watch.get(),
                                {CollectiveKind::kAllGather, send_count, dtype});
  session_.call_sequence->begin_call();
  RINGPRESS_ASSIGN_OR_RETURN(PreparedCall call,
                             calls_.prepare(CollectiveKind::kAllGather, send_count, dtype, {}, -1));
  if (send_count == 0) return calls_.finish(call, Status::ok());
  if (size() == 1) return calls_.finish(call, calls_.run_alone(call, send, receive, send_count));
  call.raw_bytes = send_count * dtype_size(dtype) * static_cast<std::uint64_t>(size() - 1);
  return calls_.finish(call,
                       call.collective->all_gather(call.context, {send, receive, send_count}));
}

Status MeshCommunicator::broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                                   int root) {
  const CallWatch::Call watched(session_.watch.get(), {CollectiveKind::kBroadcast, count, dtype});
  session_.call_sequence->begin_call();
  RINGPRESS_ASSIGN_OR_RETURN(PreparedCall call,
                             calls_.prepare(CollectiveKind::kBroadcast, count, dtype, {}, root));
  if (count == 0) return calls_.finish(call, Status::ok());
  return calls_.finish(call, ring::broadcast(call.context, send, receive, count, root));
}

Status MeshCommunicator::reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                Reduction reduction, int root) {
  const CallWatch::Call watched(session_.watch.get(), {CollectiveKind::kReduce, count, dtype});
  session_.call_sequence->begin_call();
  RINGPRESS_ASSIGN_OR_RETURN(
      PreparedCall call, calls_.prepare(CollectiveKind::kReduce, count, dtype, reduction, root));
  if (count == 0) return calls_.finish(call, Status::ok());
  if (size() == 1) return calls_.finish(call, calls_.run_alone(call, send, receive, count));
  return calls_.finish(call, ring::reduce(call.context, send, receive, count, root));
}

Status MeshCommunicator::exchange(std::span<const Transfer> transfers) {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  const CallWatch::Call watched(session_.watch.get(),
                                {CollectiveKind::kSendRecv, transfers.size(), DType::kInt8});
  std::vector<ring::PointToPoint> pairs;
  std::uint64_t raw_bytes = 0;
  for (const Transfer& transfer : transfers) {
    const std::size_t bytes = transfer.count * dtype_size(transfer.dtype);
    if (bytes == 0) continue;
    if (transfer.is_send && transfer.peer != rank()) raw_bytes += bytes;
    pairs.push_back({transfer.is_send, transfer.data, bytes, transfer.peer,
                     pair_signature(session_, transfer)});
  }
  const Status status = ring::exchange(*session_.mesh, pairs, session_.settings.chunk_bytes);
  session_.statistics.count_transfers(raw_bytes);
  return status;
}

Status MeshCommunicator::set_layers(const HintedCall& call, std::span<const Layer> layers) {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.hints.set(call, layers);
}

Status MeshCommunicator::flush_lazy() {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  if (session_.lazy != nullptr) session_.lazy->calls.flush();
  return Status::ok();
}

Status MeshCommunicator::finalize() {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  if (session_.lazy != nullptr) {
    session_.statistics.add([this](Statistics* statistics) {
      session_.lazy->calls.book_unsent(statistics, ReportTime::kEnd);
    });
  }
  session_.is_finalized = true;
  return Status::ok();
}

void MeshCommunicator::abort(End end) {
  const std::string own = "rank " + std::to_string(rank());
  switch (end) {
    case End::kAborted:
      return session_.mesh->abort({Code::kAborted, own + " aborted the communicator"});
    case End::kRevoked:
      return session_.mesh->abort({Code::kRevoked, own + " revoked the communicator"});
  }
}

}  // namespace ringpress::nccl_plugin
