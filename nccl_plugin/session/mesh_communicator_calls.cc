// The calls of a communicator on whole buffers.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "nccl_plugin/session/mesh_communicator.h"
#include "ring/factory.h"

namespace ringpress::nccl_plugin {

/// A communicator of one rank: the reduction of its own values alone.
Status MeshCommunicator::run_alone(const Preparation& call, const void* send, void* receive,
                                   std::size_t count) {
  DecodeAddEncodeArgs args;
  args.values = send;
  args.count = count;
  args.input_scale = call.context.input_scale;
  args.decoded = receive;
  call.context.codec->decode_add_encode(args);
  return Status::ok();
}

Status MeshCommunicator::run_timed(const Preparation& call, const AllReduceArgs& args) {
  const Status status = call.collective->all_reduce(call.context, args);
  if (!status.is_ok()) return status;
  const CallSignature& signature = call.context.call;
  const bool is_trial = is_tuned_ && tuned_->is_trying();
  steps_.end_timing({signature.kind, args.count, signature.dtype, signature.op, args.send},
                    {mesh_->counters().sent_bytes, call.decision.is_by_rule(), is_trial});
  return status;
}

Status MeshCommunicator::all_reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                    Reduction reduction) {
  call_sequence_->begin_call();
  if (!may_be_put_off(count, dtype, reduction)) {
    return all_reduce_now({send, send}, receive, count, dtype, reduction);
  }
  const TensorCall tensor{CollectiveKind::kAllReduce, count, dtype, reduction.op, send};
  CallUsers users{CallUser::kLazy};
  if (settings_.error_feedback) users.add(CallUser::kFeedback);
  call_sequence_->tell(tensor, users);
  RINGPRESS_ASSIGN_OR_RETURN(const LazyCalls::Decision decision, ask_lazy(tensor, send));
  if (decision.is_put_off) {
    std::memset(receive, 0, count * dtype_size(dtype));
    if (settings_.error_feedback) feedback_.pass(tensor);  // It has its place all the same.
    const std::lock_guard lock(statistics_mutex_);
    ++statistics_.calls;
    exact_calls_.count({ExactReason::kPutOff, 0, {}});
    exact_calls_.set_last({ExactReason::kPutOff, 0, {}});
    statistics_.last_codec = kNoCodec;
    return Status::ok();
  }
  // Others may have begun with it: a rank that does not get to its end ends the communicator.
  return decide([&]() -> Status {
    const void* values = send;
    if (decision.has_sum) {
      RINGPRESS_RETURN_IF_ERROR(lazy_->write_sum(receive));
      values = receive;
    }
    RINGPRESS_RETURN_IF_ERROR(all_reduce_now({values, send}, receive, count, dtype, reduction));
    return conclude_lazy();
  });
}

Status MeshCommunicator::all_reduce_now(const Sent& sent, void* receive, std::size_t count,
                                        DType dtype, Reduction reduction) {
  const void* const send = sent.values;
  if (count > 0) {
    under_way_ = {CollectiveKind::kAllReduce, count, dtype, reduction.op, sent.address};
    // What is decided before the call is a part of it: no pause of the program.
    steps_.begin_timing(*under_way_, mesh_->counters().sent_bytes);
    if (steps_.is_due()) RINGPRESS_RETURN_IF_ERROR(hear_of_step());
    steps_.begin_call(*under_way_);
  }
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kAllReduce, count, dtype, reduction, -1));
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  recall(&call, sent, count);
  const std::uint64_t ranks = static_cast<std::uint64_t>(size_);
  call.raw_bytes = count * dtype_size(dtype) * 2 * (ranks - 1) / ranks;
  return finish(call, run_timed(call, {send, receive, count}));
}

Status MeshCommunicator::reduce_scatter(const void* send, void* receive, std::size_t receive_count,
                                        DType dtype, Reduction reduction) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call, prepare(CollectiveKind::kReduceScatter,
                                                       receive_count, dtype, reduction, -1));
  if (receive_count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, receive_count));
  call.raw_bytes = receive_count * dtype_size(dtype) * static_cast<std::uint64_t>(size_ - 1);
  return finish(call,
                call.collective->reduce_scatter(call.context, {send, receive, receive_count}));
}

Status MeshCommunicator::all_gather(const void* send, void* receive, std::size_t send_count,
                                    DType dtype) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kAllGather, send_count, dtype, {}, -1));
  if (send_count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, send_count));
  call.raw_bytes = send_count * dtype_size(dtype) * static_cast<std::uint64_t>(size_ - 1);
  return finish(call, call.collective->all_gather(call.context, {send, receive, send_count}));
}

Status MeshCommunicator::broadcast(const void* send, void* receive, std::size_t count, DType dtype,
                                   int root) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kBroadcast, count, dtype, {}, root));
  if (count == 0) return finish(call, Status::ok());
  return finish(call, ring::broadcast(call.context, send, receive, count, root));
}

Status MeshCommunicator::reduce(const void* send, void* receive, std::size_t count, DType dtype,
                                Reduction reduction, int root) {
  RINGPRESS_ASSIGN_OR_RETURN(Preparation call,
                             prepare(CollectiveKind::kReduce, count, dtype, reduction, root));
  if (count == 0) return finish(call, Status::ok());
  if (size_ == 1) return finish(call, run_alone(call, send, receive, count));
  return finish(call, ring::reduce(call.context, send, receive, count, root));
}

/// Point-to-point calls are numbered per pair of ranks and direction: other ranks do not see them.
CallSignature MeshCommunicator::pair_signature(const Transfer& transfer) {
  CallSignature call;
  call.sequence = transfers_[{transfer.peer, transfer.is_send}]++;
  call.count = transfer.count;
  call.kind = CollectiveKind::kSendRecv;
  call.dtype = transfer.dtype;
  return call;
}

Status MeshCommunicator::exchange(std::span<const Transfer> transfers) {
  RINGPRESS_RETURN_IF_ERROR(check_usable());
  std::vector<ring::PointToPoint> pairs;
  std::uint64_t raw_bytes = 0;
  for (const Transfer& transfer : transfers) {
    const std::size_t bytes = transfer.count * dtype_size(transfer.dtype);
    if (bytes == 0) continue;
    if (transfer.is_send && transfer.peer != rank_) raw_bytes += bytes;
    pairs.push_back(
        {transfer.is_send, transfer.data, bytes, transfer.peer, pair_signature(transfer)});
  }
  const Status status = ring::exchange(*mesh_, pairs, settings_.chunk_bytes);
  const std::lock_guard lock(statistics_mutex_);
  ++statistics_.calls;
  statistics_.raw_bytes += raw_bytes;
  return status;
}

Result<std::unique_ptr<Communicator>> MeshCommunicator::split(int color, int key,
                                                              const Settings& settings) {
  struct Choice {
    std::int32_t color, key;
  };
  const Choice own{color, key};
  std::vector<Choice> choices(static_cast<std::size_t>(size_));
  RINGPRESS_RETURN_IF_ERROR(all_gather(&own, choices.data(), sizeof own, DType::kInt8));
  std::vector<int> members;  // Ranks of this communicator, in the order of the new one.
  for (int peer = 0; peer < size_; ++peer) {
    if (color >= 0 && choices[static_cast<std::size_t>(peer)].color == color) {
      members.push_back(peer);
    }
  }
  std::stable_sort(members.begin(), members.end(), [&choices](int a, int b) {
    return choices[static_cast<std::size_t>(a)].key < choices[static_cast<std::size_t>(b)].key;
  });
  const bool leads = !members.empty() && members.front() == rank_;
  UniqueId id{};
  Status opened = Status::ok();
  if (leads) {
    auto made = make_unique_id(settings);
    if (made.is_ok()) id = made.value();
    opened = made.status();
  }
  std::vector<UniqueId> ids(static_cast<std::size_t>(size_));
  RINGPRESS_RETURN_IF_ERROR(all_gather(id.data(), ids.data(), sizeof id, DType::kInt8));
  if (members.empty()) return std::unique_ptr<Communicator>();
  RINGPRESS_RETURN_IF_ERROR(opened);
  const auto leader = static_cast<std::size_t>(members.front());
  if (ids[leader] == UniqueId{}) {
    return Status(Code::kSystem, "rank " + std::to_string(leader) + ", which leads color " +
                                     std::to_string(color) + ", could not open a socket");
  }
  const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
  return create(ids[leader], static_cast<int>(place), static_cast<int>(members.size()), settings);
}

}  // namespace ringpress::nccl_plugin
