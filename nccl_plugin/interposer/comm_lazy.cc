// Comm's part in calls that may be put off (stream_lazy.h).
#include <utility>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/interposer/comm.h"

namespace ringpress::nccl_plugin::interposer {

Status Comm::prepare_to_put_off() {
  if (!LazyCalls::is_wanted(settings_)) return Status::ok();
  RINGPRESS_ASSIGN_OR_RETURN(lazy_, StreamLazy::make(*device_, settings_, rank_, size_, watch_));
  return Status::ok();
}

/// The same on all ranks. What a rule leaves as it is comes at once; a graph would repeat what was
/// decided when it was captured.
bool Comm::may_be_put_off(const Call& call) const {
  if (lazy_ == nullptr || call.kind != CollectiveKind::kAllReduce) return false;
  const PlanRequest request = make_request(call);
  if (!lazy_->calls().takes(request) || planner_->plan(request).is_denied()) return false;
  if (capture_of(call) == 0) return true;
  warn_once("RINGPRESS_LAZY: calls in captured streams are not put off");
  return false;
}

/// What its sending may need is made before ranks agree on the call.
Result<StreamCallPointer> Comm::start_lazily(const PlannedCall& planned) {
  if (needs_agreement(planned)) {
    RINGPRESS_RETURN_IF_ERROR(workspace_->projected(projected_bytes(planned.call)).status());
  }
  return make_lazy_call(real_, *this, planned.call);
}

Result<StreamCallPointer> Comm::start_sent(const Call& call) {
  PlannedCall planned{call};
  has_place_ = false;
  StreamCallPointer started;
  if (choose_plan(&planned)) {
    RINGPRESS_ASSIGN_OR_RETURN(started, start_planned(planned));
  } else {
    exact_because_ = planned.decision.why;
    started = make_exact_call(real_, call);
  }
  if (!has_place_) keep_place(call);
  return started;
}

void Comm::pass_put_off(const Call& call) {
  exact_because_ = {ExactReason::kPutOff, 0, {}};
  keep_place(call);
}

/// Among the calls whose residuals are kept, each call of a tensor has the same place, whatever
/// becomes of it.
void Comm::keep_place(const Call& call) {
  if (!settings_.error_feedback) return;
  PlanRequest request = make_request(call);
  request.recurrences = kRecursAlways;
  const Decision decision = planner_->plan(request);
  const bool has_codec = codec_for(call, decision.codec) != nullptr;
  const std::size_t count =
      has_codec ? residual_count(call, choose_way(decision, call)) : call.count;
  feedback_->pass(tensor_of(call, count));
}

void Comm::flush_lazy() {
  if (lazy_ != nullptr) lazy_->calls().flush();
}

std::size_t Comm::kept_bytes() const {
  const std::size_t lazy = lazy_ == nullptr ? 0 : lazy_->calls().bytes();
  return feedback_->bytes() + captured_->residual_bytes() + lazy;
}

}  // namespace ringpress::nccl_plugin::interposer
