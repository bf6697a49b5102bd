#include "nccl_plugin/interposer/comm/call_planner.h"

#include <optional>
#include <string>
#include <utility>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/interposer/comm/stream_advice.h"
#include "nccl_plugin/session/calls/named_codec.h"
#include "nccl_plugin/session/decision_chain.h"
#include "nccl_plugin/session/lazy/lazy_calls.h"

namespace ringpress::nccl_plugin::interposer {
CallPlanner::CallPlanner(CommParts& parts)
    : parts_(parts), classifier_(parts), warm_up_(parts.settings), steps_(parts.sequence) {}

bool CallPlanner::plan(PlannedCall* planned) {
  *planned = PlannedCall{planned->call};
  const PlanRequest request = parts_.policy.request(planned->call);
  planned->is_undecided = classifier_.must_wait(request, planned);
  if (planned->is_undecided) return true;
  classifier_.observe(request, planned);
  if (decide(request, planned)) return true;
  planned->stays_exact = true;
  if (planned->votes) return true;
  parts_.count_exact(planned->decision.why);
  return false;
}

Status CallPlanner::settle(PlannedCall* planned) {
  if (!std::exchange(planned->is_undecided, false)) return Status::ok();
  const PlanRequest request = parts_.policy.request(planned->call);
  RINGPRESS_RETURN_IF_ERROR(classifier_.begin_turn(request, planned));
  planned->stays_exact = !decide(request, planned);
  return Status::ok();
}

/// True: it is compressed, or put off, or may be when it begins.
bool CallPlanner::decide(const PlanRequest& request, PlannedCall* planned) {
  classifier_.classify(request, planned);
  planned->may_be_put_off = may_be_put_off(planned);
  if (planned->may_be_put_off || choose(planned)) return true;
  if (planned->decision.is_observed()) {
    parts_.statistics.count_observed(parts_.policy.raw_bytes(request));
  }
  return false;
}

bool CallPlanner::choose(PlannedCall* planned) {
  const Call& call = planned->call;
  const PlanRequest request = parts_.policy.request(call);
  StreamAdvice advice(parts_, warm_up_, steps_, planned);
  const Decision decision = decide_in_stream(parts_.policy.planner(), request, advice);
  planned->decision = decision;
  planned->takes_turn = advice.is_verdict_due();
  const bool may_be_of_step =
      decision.is_compressed() || planned->is_new() || planned->gains_nothing();
  planned->is_of_step = may_be_of_step && is_of_step(request, planned);
  if (decision.is_compressed()) {
    warn_of_loss(parts_.codec_of(call, decision)->loss, call.kind, parts_.settings);
    return true;
  }
  if (planned->is_of_step) return true;
  const bool has_place = planned->gains_nothing() || decision.why.reason == ExactReason::kWarmUp;
  if (has_place) pass_over(call, decision);
  return false;
}

/// What a call may ask for is made with the communicator, so that no rank lacks it.
Status CallPlanner::check_codec(std::string_view codec) const {
  if (parts_.codecs.find(Call{}, codec) != nullptr) return Status::ok();
  return {Code::kInvalidArgument,
          "config.ext: RINGPRESS_OPTION_CODEC: \"" + std::string(codec) +
              "\" is none that calls on streams may ask for: there are \"exact\", q2 to q8, and "
              "what RINGPRESS_CODEC, RINGPRESS_BUDGET and RINGPRESS_RULES name"};
}

/// The same on all ranks. A graph would repeat what was decided when it was captured.
bool CallPlanner::may_be_put_off(PlannedCall* planned) const {
  if (parts_.lazy == nullptr) return false;
  const PlanRequest request = parts_.policy.request(planned->call);
  if (!nccl_plugin::may_be_put_off(parts_.settings, parts_.policy.planner(), request)) return false;
  if (find_capture(*parts_.device, planned) == 0) return true;
  warn_once("RINGPRESS_LAZY: calls in captured streams are not put off");
  return false;
}

/// Of an accepted call. 0: of none, or they are not compressed.
std::uint64_t CallPlanner::graph_of(const PlannedCall& planned) const {
  return parts_.settings.graph ? planned.capture.value_or(0) : 0;
}

/// Whether it is to be shown to all ranks' plan for the step. Captured calls are not.
bool CallPlanner::is_of_step(const PlanRequest& request, PlannedCall* planned) const {
  if (parts_.steps == nullptr || !parts_.steps->takes(request)) return false;
  return find_capture(*parts_.device, planned) == 0;
}

bool CallPlanner::keeps_residual(const Call& call, const Decision& decision,
                                 std::size_t count) const {
  return parts_.codec_of(call, decision)->to_keep(decision, count).residual;
}

/// Those who are told together share what is found out. Residuals of a part of the call's values
/// have a sequence of their own; what is put off is asked about before it starts.
void CallPlanner::tell_sequence(const PlannedCall& planned) {
  const Call& call = planned.call;
  parts_.sequence->begin_call();
  if (parts_.lazy != nullptr || planned.capture.value_or(0) != 0) return;
  CallUsers users;
  const bool is_all_reduce = call.kind == CollectiveKind::kAllReduce;
  if (is_all_reduce && parts_.trace != nullptr) users.add(CallUser::kTrace);
  if (planned.is_of_step && parts_.steps->is_recording()) users.add(CallUser::kPlan);
  if (!planned.is_new()) {
    const Way way = parts_.way_of(call, planned.decision);
    const std::size_t count = parts_.policy.residual_count(call, way);
    const bool asks = count == call.count && call.options.key == 0 &&
                      keeps_residual(call, planned.decision, count);
    if (asks) users.add(CallUser::kFeedback);
    if (is_all_reduce && parts_.scales != nullptr) users.add(CallUser::kScales);
  }
  parts_.sequence->tell(tensor_of(call, call.count), users);
}

void CallPlanner::pass_over(const Call& call, const Decision& decision) {
  const std::size_t count = parts_.policy.residual_count(call, parts_.way_of(call, decision));
  if (keeps_residual(call, decision, count)) parts_.kept->pass(tensor_of(call, count));
}

void CallPlanner::keep_place(const Call& call) {
  if (!has_error_feedback(parts_.settings)) return;
  PlanRequest request = parts_.policy.request(call);
  request.call_class = CallClass::kGradient;
  const Decision decision = parts_.policy.planner().plan(request);
  const bool has_codec = parts_.codec_of(call, decision) != nullptr;
  const std::size_t count =
      has_codec ? parts_.policy.residual_count(call, parts_.way_of(call, decision)) : call.count;
  parts_.kept->pass(tensor_of(call, count));
}

bool CallPlanner::needs_agreement(const PlannedCall& planned) const {
  if (planned.stays_exact) return false;
  const std::size_t bytes = parts_.projected_bytes(planned.call);
  const MemoryAgreement& memory = parts_.kept->agreement();
  // Where a rank has no memory, such a call is not projected if it is sent.
  if (planned.may_be_put_off && memory.has_refused(bytes)) return false;
  return memory.is_needed(bytes, graph_of(planned));
}

void CallPlanner::note_agreement(const PlannedCall& planned, bool all_can) {
  parts_.kept->agreement().note(parts_.projected_bytes(planned.call), graph_of(planned), all_can);
}

}  // namespace ringpress::nccl_plugin::interposer
