#include "nccl_plugin/session/decision_chain.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ringpress/internal/codec.h"

namespace ringpress::nccl_plugin {
namespace {

/// In whole tiles.
std::size_t chunk_elements_of(std::size_t bytes, DType dtype) {
  const std::size_t elements = (bytes + dtype_size(dtype) - 1) / dtype_size(dtype);
  return whole_tiles(elements);
}

/// A call that is left exact for what its codec is.
Decision exact_for(ExactReason reason, Decision decision) {
  const std::string_view codec = decision.codec;
  decision = left_exact(decision, reason);
  decision.why.codec = codec;
  return decision;
}

WhyExact saves_nothing(const PlanRequest& request, std::string_view codec) {
  return {ExactReason::kSavesNothing, static_cast<std::uint32_t>(request.dtype), codec};
}

/// What its codec can do.
Result<Decision> ask_codec(CallAdvisers& advisers, const PlanRequest& request,
                           const Decision& decision) {
  const Decision made = if_made(decision);
  RINGPRESS_ASSIGN_OR_RETURN(const CodecLimits limits, advisers.limits_of(request, made));
  return as_planned(decision, follow_codec(limits, request, made));
}

}  // namespace

bool is_usual_compressed_all_reduce(const PlanRequest& request, const Decision& planned) {
  return request.kind == CollectiveKind::kAllReduce && !planned.is_exact() && !planned.is_given();
}

Result<Decision> decide_call(const Planner& planner, const PlanRequest& request,
                             CallAdvisers& advisers) {
  const Decision planned = planner.plan(request);
  Decision decision = follow_step(advisers.step_of(request, planned), request, planned);
  RINGPRESS_ASSIGN_OR_RETURN(const std::optional<WarmUpCall> warm_up,
                             advisers.warm_up_of(request, planned));
  decision = follow_warm_up(warm_up, decision);
  RINGPRESS_ASSIGN_OR_RETURN(const std::optional<TunedChoice> choice,
                             advisers.tuned_for(request, decision));
  decision = follow_tuned(choice, request, decision);
  // Levels know nothing of what others leave exact: that may come and go.
  if (is_usual_compressed_all_reduce(request, planned)) {
    RINGPRESS_ASSIGN_OR_RETURN(const std::string_view level, advisers.level_of(request, decision));
    decision = follow_level(level, decision);
  }
  if (!decision.is_exact()) {
    decision = follow_guard(advisers.guarded_codec(request, decision), decision);
  }
  return ask_codec(advisers, request, decision);
}

Decision decide_in_stream(const Planner& planner, const PlanRequest& request,
                          StreamAdvisers& advisers) {
  const Decision planned = planner.plan(request);
  Decision decision = if_made(planned);
  if (decision.is_exact()) return decision;
  decision = follow_stream(advisers.limits_of(request, decision), request, decision);
  if (!decision.is_compressed()) return decision;
  decision = as_planned(planned, decision);
  if (decision.is_observed()) return decision;
  const auto warm_up = advisers.warm_up_of(request, decision);
  decision.why = follow_warm_up(warm_up, decision).why;
  if (!decision.is_compressed()) return decision;
  return follow_verdict(advisers.verdict_on(request, decision), decision);
}

Result<Decision> decide_tensor(const Planner& planner, const PlanRequest& request,
                               PiecewiseTensor::Known known, CallAdvisers& advisers) {
  const Decision planned = planner.plan(request);
  const Decision made = if_made(planned);
  RINGPRESS_ASSIGN_OR_RETURN(CodecLimits limits, advisers.limits_of(request, made));
  const Decision decision = follow_extent(known, limits, made);
  RINGPRESS_ASSIGN_OR_RETURN(limits, advisers.limits_of(request, decision));
  if (limits.projects) return exact_for(ExactReason::kProjectsWholeTensors, decision);
  return as_planned(planned, follow_codec(limits, request, decision));
}

Result<Decision> decide_piece(const Decision& tensor, const PlanRequest& piece,
                              CallAdvisers& advisers) {
  RINGPRESS_ASSIGN_OR_RETURN(const std::optional<TunedChoice> choice,
                             advisers.tuned_for(piece, tensor));
  Decision decision = follow_tuned(choice, piece, tensor);
  if (!decision.is_exact()) {
    decision = follow_guard(advisers.guarded_codec(piece, decision), decision);
  }
  return ask_codec(advisers, piece, decision);
}

Decision as_planned(const Decision& planned, const Decision& found) {
  return planned.is_observed() && !found.is_exact() ? exact_for(ExactReason::kObserved, found)
                                                    : found;
}

Decision follow_step(const std::optional<PlannedStepCall>& step, const PlanRequest& request,
                     Decision decision) {
  if (!step || !is_usual_compressed_all_reduce(request, decision)) return decision;
  // In the step it stands where it stood while it was compressed, and so do the others' residuals.
  decision = left_exact(decision, ExactReason::kStepNoShorter);
  decision.codec_origin = Origin::kStep;
  if (decision.algorithm_origin != Origin::kRule) {
    decision.algorithm = static_cast<Algorithm>(step->algorithm);
    decision.algorithm_origin = Origin::kStep;
  }
  if (step->chunk_bytes != 0) {
    decision.chunk_elements = chunk_elements_of(step->chunk_bytes, request.dtype);
  }
  return decision;
}

/// Rules and settings say what comes after it; nothing is tried of a call before that.
Decision follow_warm_up(const std::optional<WarmUpCall>& warm_up, Decision decision) {
  if (!warm_up || decision.is_exact()) return decision;
  if (is_no_codec(warm_up->codec)) {
    decision = exact_for(ExactReason::kWarmUp, decision);
    decision.why.number = static_cast<std::uint32_t>(
        std::min<std::size_t>(warm_up->steps, std::numeric_limits<std::uint32_t>::max()));
  } else {
    decision.codec = warm_up->codec;
  }
  decision.codec_origin = Origin::kWarmUp;
  return decision;
}

Decision follow_tuned(const std::optional<TunedChoice>& choice, const PlanRequest& request,
                      Decision decision) {
  if (!choice) return decision;
  decision.codec = choice->codec;
  decision.algorithm = choice->algorithm;
  decision.has_scales = decision.has_scales || choice->has_scales;
  if (choice->chunk_bytes != 0) {
    decision.chunk_elements = chunk_elements_of(choice->chunk_bytes, request.dtype);
  }
  if (!decision.is_exact()) return decision;
  return left_exact(decision,
                    choice->is_settled ? ExactReason::kNothingGained : ExactReason::kTrial);
}

Decision follow_level(std::string_view level, Decision decision) {
  if (!level.empty()) decision.codec = level;
  return decision;
}

Decision follow_guard(std::string_view codec, Decision decision) {
  if (codec.empty()) return exact_for(ExactReason::kLosesTooMuch, decision);
  decision.codec = codec;
  return decision;
}

/// A call that a codec was chosen for may be exact all the same, and then always is: it needs no
/// place among those with a residual.
Decision follow_codec(const CodecLimits& limits, const PlanRequest& request, Decision decision) {
  const bool is_scatter = request.kind == CollectiveKind::kReduceScatter;
  if (is_scatter && limits.can_scatter_with_feedback && limits.scatters_keep_residuals) {
    decision.error_feedback = !decision.is_exact() && decision.codec != kLosslessCodec;
  }
  decision.error_feedback = decision.error_feedback && limits.takes_error_feedback;
  if (!limits.saves_nothing || decision.is_exact()) return decision;
  decision.error_feedback = false;
  decision.why = saves_nothing(request, decision.codec);
  decision.codec = kNoCodec;
  return decision;
}

/// The codec stays named: what is kept of the tensor for it has its place.
Decision follow_stream(const StreamLimits& limits, const PlanRequest& request, Decision decision) {
  decision.error_feedback = decision.error_feedback && limits.takes_error_feedback;
  if (limits.has_no_kernels) {
    decision.why = {ExactReason::kNotInStreams, 0, decision.codec};
  } else if (limits.saves_nothing) {
    decision.why = saves_nothing(request, decision.codec);
  } else if (limits.agrees_on_sums) {
    decision.why = {ExactReason::kAgreesOnSums, 0, decision.codec};
  } else if (limits.lacks_memory) {
    decision.why.reason = ExactReason::kNoMemoryForTensor;
  } else if (limits.is_captured && !limits.may_be_captured) {
    decision.why.reason = ExactReason::kCaptured;
  } else if (limits.is_captured && limits.has_random_bits) {
    decision.why.reason = ExactReason::kGraphRepeatsBits;
  } else if (limits.is_captured && limits.lacks_memory_for_graph) {
    decision.why.reason = ExactReason::kNoMemoryForGraph;
  }
  return decision;
}

/// The codec stays named, as above.
Decision follow_verdict(const StreamVerdict& verdict, Decision decision) {
  if (verdict.is_exact) decision.why = {ExactReason::kNothingGained, 0, {}};
  decision.has_scales = decision.has_scales || (verdict.has_scales && decision.error_feedback);
  return decision;
}

Decision follow_extent(PiecewiseTensor::Known known, const CodecLimits& limits, Decision decision) {
  if (known == PiecewiseTensor::Known::kTensor || decision.is_exact()) return decision;
  decision.error_feedback = false;  // It is not known whose residual that would be.
  if (known == PiecewiseTensor::Known::kNothing) {
    return left_exact(decision, ExactReason::kUnknownEnd);
  }
  if (!limits.unbiased.empty()) {
    decision.codec = limits.unbiased;
  } else if (limits.needs_error_feedback) {
    return exact_for(ExactReason::kUnknownTensor, decision);
  }
  return decision;
}

}  // namespace ringpress::nccl_plugin
