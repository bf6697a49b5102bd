#include "nccl_plugin/session/mesh/call_advisers.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "nccl_plugin/session/calls/coordinate_scales.h"
#include "nccl_plugin/session/tuning/calibration.h"
#include "ringpress/internal/log.h"

namespace ringpress::nccl_plugin {

MeshAdvisers::MeshAdvisers(MeshSession& session)
    : session_(session),
      classes_(session.settings, session.settings.comm_name.value_or(""), session.call_sequence),
      has_scales_(CoordinateScales::may_be_wanted(session.settings)),
      warm_up_(session.settings) {
  const Settings& settings = session.settings;
  // Of calls that are put off, no step can be made out.
  if (session.lazy == nullptr) {
    steps_.open(settings, session.rank(), session.size(), session.shape.crosses_hosts,
                session.call_sequence);
    wants_link_ = (session.mesh->root_word() & MeshSession::kRootRecordsSteps) != 0;
  }
  kept_ = make_kept();
}

MeshAdvisers::Kept MeshAdvisers::make_kept() const {
  const Settings& settings = session_.settings;
  Kept kept;
  if (tuning::TunedCalls::has_choice(settings)) {
    kept.tuned = std::make_unique<tuning::TunedCalls>(settings, session_.peers);
  }
  if (settings.mode == Mode::kOn && settings.adjust_steps != 0) {
    if (auto family = tuning::make_level_family(settings)) {
      kept.levels = std::make_unique<tuning::StepLevels>(settings, session_.peers,
                                                         std::move(family), session_.call_sequence);
    }
  }
  kept.steps = std::make_unique<TrainingSteps>(session_.call_sequence);
  kept.guard = std::make_unique<ErrorGuard>(allowed_error(settings));
  return kept;
}

void MeshAdvisers::save(StateWriter& to) const {
  if (kept_.tuned != nullptr) kept_.tuned->save(to);
  if (kept_.levels != nullptr) kept_.levels->save(to);
  kept_.steps->save(to);
  kept_.guard->save(to);
}

MeshAdvisers::Kept MeshAdvisers::load(StateReader& from) const {
  Kept kept = make_kept();
  if (kept.tuned != nullptr) kept.tuned->load(from);
  if (kept.levels != nullptr) kept.levels->load(from);
  kept.steps->load(from);
  kept.guard->load(from);
  return kept;
}

void MeshAdvisers::adopt(Kept&& kept) {
  begin_call();
  // In its place: reports, from other threads, ask it.
  if (kept_.tuned != nullptr) kept_.tuned->adopt(std::move(*kept.tuned));
  kept_.levels = std::move(kept.levels);
  kept_.steps = std::move(kept.steps);
  kept_.guard->adopt(std::move(*kept.guard));
}

Status MeshAdvisers::observe(const PlanRequest& request, const void* address) {
  is_observed_ = classes_.is_of_interest(request);
  if (!is_observed_) return Status::ok();
  CallEvidence::Seen seen{address};
  if (classes_.wants_times()) {
    const Clock::time_point now = Clock::now();
    const auto seconds = [](auto span) { return std::chrono::duration<double>(span).count(); };
    seen.pause_seconds = std::max(0.0, seconds(now - last_end_));
    seen.call_seconds = std::max(0.0, seconds(last_end_ - last_begin_));
    last_begin_ = now;
  }
  classes_.observe(request, seen);
  if (!classes_.is_vote_due()) return Status::ok();
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.decide([&]() -> Status {
    double against = classes_.vote() ? 0 : 1;
    RINGPRESS_RETURN_IF_ERROR(explain(session_.peers.max(std::span(&against, 1)), request));
    classes_.apply(against == 0);
    return Status::ok();
  });
}

void MeshAdvisers::begin_call() {
  is_tuned_ = false;
  is_measured_ = false;
  parts_ = {};
}

Status MeshAdvisers::begin_all_reduce(const TensorCall& call) {
  under_way_ = call;
  is_untold_ = true;
  // What is decided before the call is a part of it: no pause of the program.
  steps_.begin_timing(call, [this] { return session_.mesh->counters().sent_bytes; });
  if (steps_.is_due()) RINGPRESS_RETURN_IF_ERROR(broadcast_plan());
  steps_.begin_call(call);
  return Status::ok();
}

Status MeshAdvisers::measure_link() {
  if (!std::exchange(wants_link_, false)) return Status::ok();
  return session_.decide([this]() -> Status {
    const std::uint64_t sent_before = session_.peers.sent_bytes();
    RINGPRESS_ASSIGN_OR_RETURN(const LinkSpeed link, tuning::measure_link_of_ranks(session_.peers));
    link_bytes_ += session_.peers.sent_bytes() - sent_before;
    log_line(LogLevel::kInfo, "for the trace: latency %.0f us, %.3f Gb/s",
             1e6 * link.latency_seconds, 8e-9 * link.bytes_per_second);
    steps_.set_link(link);
    return Status::ok();
  });
}

void MeshAdvisers::end_all_reduce(const TensorCall& call, bool is_by_rule) {
  if (!steps_.is_timing()) return;
  const bool is_trial = is_tuned_ && kept_.tuned->is_trying();
  steps_.end_timing(call, {session_.mesh->counters().sent_bytes, is_by_rule, is_trial});
}

/// Other ranks may have made another call, which is then found out in a call of ours: this says of
/// which of the program's it was the beginning.
Status MeshAdvisers::explain(const Status& status, const PlanRequest& request) const {
  if (status.code() != Code::kMismatch) return status;
  return {Code::kMismatch, status.message() + " (while the ranks agreed on how to make the " +
                               collective_name(request.kind) + " of " +
                               std::to_string(request.count) + " " + dtype_name(request.dtype) +
                               " that this rank is at)"};
}

/// Before anything else is decided, all whose call it is are told of it together.
std::optional<PlannedStepCall> MeshAdvisers::step_of(const PlanRequest& request,
                                                     const Decision& planned) {
  if (!std::exchange(is_untold_, false)) return std::nullopt;
  CallUsers users = steps_.users(under_way_);
  if (planned.error_feedback) users.add(CallUser::kFeedback);
  if (kept_.levels != nullptr && is_usual_compressed_all_reduce(request, planned)) {
    users.add(CallUser::kLevels);
  }
  if (has_scales_ && !planned.is_exact()) users.add(CallUser::kScales);
  if (counts_for_warm_up(planned)) users.add(CallUser::kWarmUp);
  if (!users.is_empty()) session_.call_sequence->tell(under_way_, users);
  return steps_.stays_exact();
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
  if (kept_.steps->begun() >= warm_up_.steps()) steps_.start_over();
  return found;
}

Result<std::optional<TunedChoice>> MeshAdvisers::tuned_for(const PlanRequest& request,
                                                           const Decision& decision) {
  std::optional<TunedChoice> choice;
  is_tuned_ =
      kept_.tuned != nullptr && !decision.is_by_rule() && decision.codec_origin != Origin::kWarmUp;
  if (!is_tuned_) return choice;
  RINGPRESS_RETURN_IF_ERROR(session_.decide([&]() -> Status {
    const Result<std::optional<TunedChoice>> chosen = kept_.tuned->choose(request, decision);
    if (!chosen.is_ok()) return explain(chosen.status(), request);
    choice = chosen.value();
    return Status::ok();
  }));
  return choice;
}

Result<std::string_view> MeshAdvisers::level_of(const PlanRequest& request,
                                                const Decision& decision) {
  if (kept_.levels == nullptr) return std::string_view();
  RINGPRESS_RETURN_IF_ERROR(
      session_.decide([&] { return explain(kept_.levels->choose(request, decision), request); }));
  if (kept_.levels->has_changed_sizes()) steps_.start_over();
  is_measured_ = kept_.levels->wants_values();
  parts_ = kept_.levels->parts();
  return kept_.levels->codec();
}

std::string_view MeshAdvisers::guarded_codec(const PlanRequest& request, const Decision& decision) {
  const bool is_guarded = session_.settings.guard && request.kind == CollectiveKind::kAllReduce &&
                          decision.codec_origin == Origin::kAutomatic;
  if (!is_guarded) return decision.codec;
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

/// On rank 0: by what calls are made that the plan leaves exact. Each is one piece of work, so what
/// takes least alone does so in the step.
void MeshAdvisers::choose_collectives(StepMessage* message) const {
  if (kept_.tuned == nullptr) return;
  for (PlannedStepCall& call : message->calls) {
    if (call.stays_exact == 0) continue;
    const PlanRequest request =
        session_.request(CollectiveKind::kAllReduce, call.count, static_cast<DType>(call.dtype),
                         {static_cast<ReduceOp>(call.op)});
    const std::optional<Choice> choice =
        kept_.tuned->quickest_exact(request, session_.planner->plan(request));
    if (!choice) continue;
    call.algorithm = static_cast<std::uint8_t>(choice->algorithm);
    call.chunk_bytes = static_cast<std::uint32_t>(choice->chunk_bytes);
  }
}

/// Rank 0's message on the step, where it is due on all ranks.
Status MeshAdvisers::broadcast_plan() {
  RINGPRESS_RETURN_IF_ERROR(session_.check_usable());
  return session_.decide([this]() -> Status {
    MeshPeers& peers = session_.peers;
    StepMessage message = steps_.message();
    choose_collectives(&message);
    RINGPRESS_RETURN_IF_ERROR(
        peers.broadcast(std::as_writable_bytes(std::span(&message.header, 1))));
    if (message.header.calls > StepMessage::kMostCalls) {
      return {Code::kMismatch, "rank 0's plan is for a step of too many calls"};
    }
    message.calls.resize(message.header.calls);
    if (!message.calls.empty()) {
      RINGPRESS_RETURN_IF_ERROR(peers.broadcast(std::as_writable_bytes(std::span(message.calls))));
    }
    return steps_.apply(message);
  });
}

}  // namespace ringpress::nccl_plugin
