#include "nccl_plugin/interposer/comm/stream_advice.h"

#include "nccl_plugin/session/calls/savings.h"

namespace ringpress::nccl_plugin::interposer {

StreamLimits StreamAdvice::limits_of(const PlanRequest& request, const Decision& decision) {
  const Call& call = planned_->call;
  const PreparedCodec* const codec = parts_.codec_of(call, decision);
  StreamLimits limits;
  limits.has_no_kernels = codec == nullptr;
  if (limits.has_no_kernels) return limits;
  const std::uint64_t capture = find_capture(*parts_.device, planned_);
  const bool gathers = call.kind == CollectiveKind::kAllGather;
  const MemoryAgreement& memory = parts_.kept->agreement();
  limits.takes_error_feedback = codec->takes_error_feedback;
  limits.saves_nothing = !saves_bytes(codec->of_tensor(), request);
  limits.agrees_on_sums = gathers && codec->of_tensor().agreement() != nullptr;
  limits.lacks_memory = memory.has_refused(parts_.projected_bytes(call));
  limits.is_captured = capture != 0;
  // What cannot be told is left to the real library, which will say what is wrong.
  limits.may_be_captured = parts_.settings.graph && capture != kUnknownCapture;
  limits.has_random_bits = codec->has_random_bits();
  limits.lacks_memory_for_graph = memory.has_refused_graph(capture);
  return limits;
}

std::optional<WarmUpCall> StreamAdvice::warm_up_of(const PlanRequest& request,
                                                   const Decision& decision) {
  if (steps_.begun() >= warm_up_.steps() || is_captured()) return std::nullopt;
  const TrainingStep step =
      steps_.of_next({request.kind, request.count, request.dtype, request.op});
  const std::optional<WarmUpCall> found = warm_up_.at(step, decision.codec);
  if (!found) return std::nullopt;
  return WarmUpCall{kNoCodec, found->steps};
}

StreamVerdict StreamAdvice::verdict_on(const PlanRequest& request, const Decision& decision) {
  StreamVerdict verdict;
  if (parts_.guard == nullptr || decision.is_given()) return verdict;
  const StreamGuard::Answer answer =
      is_captured() ? parts_.guard->look_at_captured(request) : parts_.guard->look_at(request);
  is_verdict_due_ = answer == StreamGuard::Answer::kAsk;
  verdict.is_exact = answer == StreamGuard::Answer::kExact;
  verdict.has_scales =
      parts_.settings.feedback == FeedbackChoice::kAuto && parts_.guard->wants_scales(request);
  return verdict;
}

}  // namespace ringpress::nccl_plugin::interposer
