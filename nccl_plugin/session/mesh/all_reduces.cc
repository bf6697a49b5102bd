#include "nccl_plugin/session/mesh/all_reduces.h"

#include <cstring>

#include "ringpress/internal/projection.h"

namespace ringpress::nccl_plugin {

/// The same on all ranks. What a rule leaves as it is comes at once.
bool AllReduces::may_be_put_off(std::size_t count, DType dtype, const Reduction& reduction) const {
  if (session_.lazy == nullptr) return false;
  const PlanRequest request = session_.request(CollectiveKind::kAllReduce, count, dtype, reduction);
  return session_.lazy->calls.takes(request) && !session_.planner->plan(request).is_denied();
}

Status AllReduces::run(const void* send, void* receive, std::size_t count, DType dtype,
                       const Reduction& reduction) {
  session_.call_sequence->begin_call();
  if (!may_be_put_off(count, dtype, reduction)) {
    return run_now({send, send}, receive, count, dtype, reduction);
  }
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  VotedCalls& lazy = *session_.lazy;
  const TensorCall tensor{CollectiveKind::kAllReduce, count, dtype, reduction.op, send};
  CallUsers users{CallUser::kLazy};
  if (session_.settings.error_feedback) users.add(CallUser::kFeedback);
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
  if (session_.settings.error_feedback) session_.feedback.pass(tensor);  // It has its place.
  session_.statistics.count_exact({ExactReason::kPutOff, 0, {}});
  return Status::ok();
}

Status AllReduces::run_now(const Sent& sent, void* receive, std::size_t count, DType dtype,
                           const Reduction& reduction) {
  const void* const send = sent.values;
  if (count > 0) {
    RINGPRESS_RETURN_IF_ERROR(calls_.advisers().begin_all_reduce(
        {CollectiveKind::kAllReduce, count, dtype, reduction.op, sent.address}));
  }
  RINGPRESS_ASSIGN_OR_RETURN(
      PreparedCall call, calls_.prepare(CollectiveKind::kAllReduce, count, dtype, reduction, -1));
  if (count == 0) return calls_.finish(call, Status::ok());
  if (session_.size() == 1) {
    return calls_.finish(call, calls_.run_alone(call, send, receive, count));
  }
  recall(&call, sent, count);
  const auto ranks = static_cast<std::uint64_t>(session_.size());
  call.raw_bytes = count * dtype_size(dtype) * 2 * (ranks - 1) / ranks;
  return calls_.finish(call, run_timed(call, {send, receive, count}));
}

Status AllReduces::run_timed(const PreparedCall& call, const AllReduceArgs& args) {
  const Status status = call.collective->all_reduce(call.context, args);
  if (!status.is_ok()) return status;
  const CallSignature& signature = call.context.call;
  calls_.advisers().end_all_reduce(
      {signature.kind, args.count, signature.dtype, signature.op, args.send},
      call.decision.is_by_rule());
  return status;
}

/// What is known of the tensor from earlier calls and from hints.
void AllReduces::recall(PreparedCall* call, const Sent& sent, std::size_t count) {
  CollectiveContext& context = call->context;
  const DType dtype = context.codec->dtype();
  const TensorCall tensor{context.call.kind, count, dtype, context.codec->op(), sent.address};
  find_residual(call, tensor);
  // It has its place all the same.
  if (session_.call_sequence->has_told(CallUser::kFeedback)) session_.feedback.pass(tensor);
  if (calls_.advisers().wants_values()) {
    calls_.advisers().take_values({sent.values, context.residual, count, dtype},
                                  session_.hints.find({count, dtype, sent.address}));
    call->started = Clock::now();
  }
}

void AllReduces::find_residual(PreparedCall* call, const TensorCall& tensor) {
  CollectiveContext& context = call->context;
  if (context.codec->traits().lossless) return;
  ToKeep wanted{call->decision.error_feedback, 0};
  if (context.codec->projection() != nullptr) {
    context.layers = session_.hints.find({tensor.count, tensor.dtype, tensor.address});
    wanted.state_count = context.codec->projection()->state_count({tensor.count, context.layers});
  }
  if (!wanted.residual && wanted.state_count == 0) return;
  const Kept kept = session_.feedback.find(tensor, wanted);
  context.residual = kept.residual;
  context.projection_state = kept.state;
}

}  // namespace ringpress::nccl_plugin
