// Comm's part in calls that begin: how they are made after all.
#include <string>
#include <utility>

#include "nccl_plugin/errors/firewall.h"
#include "nccl_plugin/interposer/comm.h"

namespace ringpress::nccl_plugin::interposer {

Result<StreamCallPointer> Comm::start(const PlannedCall& planned) {
  exact_because_ = {};
  if (planned.may_be_put_off) return start_lazily(planned);
  RINGPRESS_ASSIGN_OR_RETURN(StreamCallPointer call, start_planned(planned));
  return trace_ == nullptr ? std::move(call) : trace(planned, std::move(call));
}

/// `call`, as the trace wants it.
StreamCallPointer Comm::trace(const PlannedCall& planned, StreamCallPointer call) {
  if (planned.call.kind != CollectiveKind::kAllReduce) return call;
  CallFrame frame;
  if (capture_of(planned.call) != 0) {
    trace_->skip();
  } else {
    const TensorCall tensor = tensor_of(planned.call, planned.call.count);
    trace_->time(tensor, planned.call.stream, planned.takes_turn, &frame);
  }
  return make_framed_call(framed_parts(planned.call), frame, std::move(call));
}

bool Comm::begin_exact(const Call& call) {
  if (call.kind != CollectiveKind::kAllReduce) return false;
  if (capture_of(call) != 0) {
    trace_->skip();
    return false;
  }
  trace_->begin_exact(tensor_of(call, call.count), call.stream);
  return true;
}

/// A step that is not learnt for want of memory is not worth a line.
void Comm::end_exact() noexcept {
  static_cast<void>(catch_all([this] {
    trace_->end_exact();
    return Status::ok();
  }));
}

void Comm::note_codec(const Call& call, const Decision& decision, Way way) {
  const std::lock_guard lock(statistics_mutex_);
  statistics_.last_codec = codec_for(call, decision.codec)->of_tensor().specification();
  exact_calls_.set_last({});
  statistics_.last_algorithm = name_of(way);
}

/// What choose_plan() has said yes to.
Result<StreamCallPointer> Comm::start_planned(const PlannedCall& planned) {
  if (planned.is_of_step) return start_of_step(planned);
  return planned.takes_turn ? start_in_turn(planned) : start_compressed(planned);
}

/// As the step's plan says, or else as the guard does.
Result<StreamCallPointer> Comm::start_of_step(const PlannedCall& planned) {
  const Call& call = planned.call;
  const TensorCall tensor = tensor_of(call, call.count);
  RINGPRESS_ASSIGN_OR_RETURN(const SteppedCall stepped, steps_->next(tensor, call.stream, watch_));
  CallFrame frame;
  frame.words = stepped.words;
  const bool is_by_rule = planned.decision.is_by_rule();
  const Decision decision = follow_step(stepped.stays_exact, make_request(call), planned.decision);
  StreamCallPointer inner;
  if (planned.is_new) {
    // As if it were left to the real library, which does not know of places either.
    exact_because_ = decision.why;
    inner = make_exact_call(real_, call);
    steps_->time(tensor, call.stream, is_by_rule, &frame);
  } else if (planned.gains_nothing || decision.is_exact()) {
    inner = start_exactly(
        planned, planned.gains_nothing ? ExactReason::kNothingGained : decision.why.reason);
    steps_->time(tensor, call.stream, is_by_rule, &frame);
  } else if (planned.takes_turn) {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_in_turn(planned));
    steps_->skip();
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_compressed(planned));
    steps_->time(tensor, call.stream, is_by_rule, &frame);
  }
  return make_framed_call(framed_parts(call), frame, std::move(inner));
}

/// As the guard says now.
Result<StreamCallPointer> Comm::start_in_turn(const PlannedCall& planned) {
  const Call& call = planned.call;
  RINGPRESS_ASSIGN_OR_RETURN(
      const GuardedCall guarded,
      guard_->next(make_request(call), call.stream, planned.decision.codec, watch_));
  StreamCallPointer inner;
  if (guarded.step.is_exact) {
    inner = start_exactly(
        planned, guarded.step.is_trial ? ExactReason::kTrial : ExactReason::kNothingGained);
  } else {
    RINGPRESS_ASSIGN_OR_RETURN(inner, start_compressed(planned));
  }
  return make_framed_call(framed_parts(call), guarded.frame, std::move(inner));
}

FramedParts Comm::framed_parts(const Call& call) const {
  return {&real_, handle_, rank_, device_.get(), call.stream};
}

/// What a call of the real library would answer in our place, so that a program that would go on
/// and look for errors is not kept from that until the wait times out.
Status Comm::find_failure(Stream stream) {
  RINGPRESS_RETURN_IF_ERROR(device_->find_failure(stream));
  if (real_.CommGetAsyncError == nullptr || !enter()) return Status::ok();
  ncclResult_t error = ncclSuccess;
  const ncclResult_t asked = real_.CommGetAsyncError(handle_, &error);
  leave();
  if (asked != ncclSuccess || error == ncclInProgress) return Status::ok();
  return answered("ncclCommGetAsyncError", error);
}

StreamCallPointer Comm::start_exactly(const PlannedCall& planned, ExactReason reason) {
  exact_because_ = left_exact(planned.decision, reason).why;
  pass_over(planned.call, planned.decision);
  return make_exact_call(real_, planned.call);
}

Result<StreamCallPointer> Comm::start_compressed(const PlannedCall& planned) {
  const Call& call = planned.call;
  const Decision& decision = planned.decision;
  const Way way = choose_way(decision, call);
  RINGPRESS_EXPECTS(codec_for(call, decision.codec) != nullptr,
                    "a call was accepted that has no codec");
  ProjectionParts projection;
  StreamCallParts parts = make_parts(call, decision, way);
  RINGPRESS_RETURN_IF_ERROR(find_place_and_memory(call, decision, way, &parts, &projection));
  note_codec(call, decision, way);
  switch (way) {
    case Way::kSra:
      return make_sra_call(parts);
    case Way::kRing:
      return make_ring_call(parts);
    case Way::kProjection:
      return make_projection_call(parts, projection);
    case Way::kGather:
      return make_gather_call(parts);
    case Way::kHier:
      break;
  }
  HostParts host;
  host.whole = handle_;
  host.local = groups_.local;
  host.rank = static_cast<std::size_t>(groups_.place.local_rank);
  host.size = static_cast<std::size_t>(groups_.place.local_size);
  host.dtype = call.dtype;
  host.op = call.op;
  return make_hier_call(parts, host);
}

}  // namespace ringpress::nccl_plugin::interposer
