#include "nccl_plugin/session/mesh/call_advisers.h"

#include <utility>

#include "nccl_plugin/session/calls/coordinate_scales.h"

namespace ringpress::nccl_plugin {

KeptAdvice::KeptAdvice(MeshSession& session)
    : steps(std::make_unique<TrainingSteps>(session.call_sequence)),
      guard(std::make_unique<ErrorGuard>(allowed_error(session.settings))) {
  const Settings& settings = session.settings;
  if (tuning::TunedCalls::has_choice(settings)) {
    tuned = std::make_unique<tuning::TunedCalls>(settings, session.peers);
  }
  if (settings.mode == Mode::kOn && settings.adjust_steps != 0) {
    if (auto family = tuning::make_level_family(settings)) {
      levels = std::make_unique<tuning::StepLevels>(settings, session.peers, std::move(family),
                                                    session.call_sequence);
    }
  }
}

/// With RINGPRESS_DETERMINISTIC the budget's codec counts as a setting; the guard goes by no times.
bool is_guarded(const Settings& settings, const Decision& decision) {
  return settings.guard && settings.codec.is_automatic() &&
         (decision.codec_origin == Origin::kAutomatic || decision.codec_origin == Origin::kSetting);
}

void KeptAdvice::save(StateWriter& to) const {
  if (tuned != nullptr) tuned->save(to);
  if (levels != nullptr) levels->save(to);
  steps->save(to);
  guard->save(to);
}

void KeptAdvice::load(StateReader& from) {
  if (tuned != nullptr) tuned->load(from);
  if (levels != nullptr) levels->load(from);
  steps->load(from);
  guard->load(from);
}

void KeptAdvice::adopt(KeptAdvice&& loaded) {
  if (tuned != nullptr) tuned->adopt(std::move(*loaded.tuned));
  levels = std::move(loaded.levels);
  steps = std::move(loaded.steps);
  guard->adopt(std::move(*loaded.guard));
}

MeshAdvisers::MeshAdvisers(MeshSession& session)
    : session_(session),
      kept_(session),
      steps_(session, kept_.tuned.get()),
      has_scales_(CoordinateScales::may_be_wanted(session.settings)),
      warm_up_(session.settings) {}

void MeshAdvisers::begin_call() {
  is_tuned_ = false;
  is_measured_ = false;
  parts_ = {};
}

void MeshAdvisers::end_all_reduce(const TensorCall& call, bool is_by_rule) {
  if (!steps_.of_calls().is_timing()) return;
  const bool is_trial = is_tuned_ && kept_.tuned->is_trying();
  steps_.of_calls().end_timing(call, {session_.mesh->counters().sent_bytes, is_by_rule, is_trial});
}

/// Before anything else is decided, all whose call it is are told of it together.
std::optional<PlannedStepCall> MeshAdvisers::step_of(const PlanRequest& request,
                                                     const Decision& planned) {
  const TensorCall* const call = steps_.take_untold();
  if (call == nullptr) return std::nullopt;
  CallUsers users = steps_.of_calls().users(*call);
  if (planned.error_feedback && !name_of_call().is_key()) {
    users.add(CallUser::kFeedback);
  }
  if (kept_.levels != nullptr && is_usual_compressed_all_reduce(request, planned)) {
    users.add(CallUser::kLevels);
  }
  if (has_scales_ && !planned.is_exact()) users.add(CallUser::kScales);
  if (counts_for_warm_up(planned)) users.add(CallUser::kWarmUp);
  if (!users.is_empty()) session_.call_sequence->tell(*call, users);
  return steps_.of_calls().stays_exact();
}

bool MeshAdvisers::counts_for_warm_up(const Decision& planned) const {
  return !planned.is_exact() && kept_.steps->begun() < warm_up_.steps();
}

Result<std::optional<WarmUpCall>> MeshAdvisers::warm_up_of(const PlanRequest& request,
                                                           const Decision& planned) {
  std::optional<WarmUpCall> found;
  if (!counts_for_warm_up(planned)) return found;
  const TensorCall call{request.kind, request.count, request.dtype, request.op};
  RINGPRESS_RETURN_IF_ERROR(session_.decide([&] {
    found = warm_up_.at(kept_.steps->of_next(call), planned.codec);
    return Status::ok();
  }));
  // What a step takes is learnt anew.
  if (kept_.steps->begun() >= warm_up_.steps()) steps_.of_calls().start_over();
  return found;
}

Result<std::optional<TunedChoice>> MeshAdvisers::tuned_for(const PlanRequest& request,
                                                           const Decision& decision) {
  std::optional<TunedChoice> choice;
  is_tuned_ =
      kept_.tuned != nullptr && !decision.is_given() && decision.codec_origin != Origin::kWarmUp;
  if (!is_tuned_) return choice;
  RINGPRESS_RETURN_IF_ERROR(session_.decide_on(request, [&]() -> Status {
    RINGPRESS_ASSIGN_OR_RETURN(choice, kept_.tuned->choose(request, decision));
    return Status::ok();
  }));
  return choice;
}

Result<std::string_view> MeshAdvisers::level_of(const PlanRequest& request,
                                                const Decision& decision) {
  if (kept_.levels == nullptr) return std::string_view();
  RINGPRESS_RETURN_IF_ERROR(
      session_.decide_on(request, [&] { return kept_.levels->choose(request, decision); }));
  if (kept_.levels->has_changed_sizes()) steps_.of_calls().start_over();
  is_measured_ = kept_.levels->wants_values();
  parts_ = kept_.levels->parts();
  return kept_.levels->codec();
}

std::string_view MeshAdvisers::guarded_codec(const PlanRequest& request, const Decision& decision) {
  const bool is_all_reduce = request.kind == CollectiveKind::kAllReduce;
  if (!is_all_reduce || !is_guarded(session_.settings, decision)) return decision.codec;
  return kept_.guard->codec_for({request.kind, request.count, request.dtype, request.op},
                                decision.codec);
}

Result<CodecLimits> MeshAdvisers::limits_of(const PlanRequest& request, const Decision& decision) {
  RINGPRESS_ASSIGN_OR_RETURN(const NamedCodec* named,
                             session_.codec_for(decision.codec, request.dtype, request.op));
  CodecLimits limits = nccl_plugin::limits_of(*named, request);
  limits.scatters_keep_residuals = has_error_feedback(session_.settings);
  return limits;
}

}  // namespace ringpress::nccl_plugin
