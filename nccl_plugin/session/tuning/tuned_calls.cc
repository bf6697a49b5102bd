#include "nccl_plugin/session/tuning/tuned_calls.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/session/calls/comm_shape.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr std::size_t kMostEarlyTimes = 16;

/// What rank 0 sends. All ranks are of one version and byte order: they have agreed on it.
struct Announcement {
  std::uint64_t epoch = 0;
  std::uint64_t codec = 0;
  std::uint64_t algorithm = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint64_t calls = 0;
  std::uint64_t is_settled = 0;
  std::uint64_t has_scales = 0;
};

std::span<std::byte> bytes_of(Announcement* announcement) {
  return std::as_writable_bytes(std::span(announcement, 1));
}

TuningLimits limits_of(const CallSettings& settings) {
  TuningLimits limits;
  limits.warm_up_calls = static_cast<std::uint32_t>(settings.tuning_warm_up_calls);
  limits.calls = static_cast<std::uint32_t>(settings.tuning_calls);
  limits.trials = static_cast<std::uint32_t>(settings.tuning_trials);
  if (limits.trials == 0) limits.rematches = 0;
  return limits;
}

/// By default, where they are all but free by the model; otherwise the settings have said so
/// before.
Result<bool> may_have_scales(const CallSettings& settings, const KnownCalibrations& calibrations,
                             const TunedClass& calls, const Choice& choice) {
  const bool is_open = settings.feedback == FeedbackChoice::kAuto && !choice.is_exact() &&
                       calls.kind == CollectiveKind::kAllReduce;
  if (!is_open) return false;
  return tuner::are_scales_cheap(calibrations.shape_of(calls.bytes), calibrations.of(calls.dtype),
                                 choice);
}

}  // namespace

TunedCalls::TunedCalls(const Settings& settings, Peers& peers, const TuningLimits& limits)
    : settings_(settings), peers_(peers), limits_(limits), calibrations_(settings, peers) {}

TunedCalls::TunedCalls(const Settings& settings, Peers& peers)
    : TunedCalls(settings, peers, limits_of(settings)) {}

bool TunedCalls::has_choice(const CallSettings& settings) {
  return is_automatic(settings) && !is_no_codec(settings.budget.codec);
}

Result<std::optional<TunedChoice>> TunedCalls::choose(const PlanRequest& request,
                                                      const Decision& decision) {
  current_ = nullptr;
  std::optional<TunedChoice> choice;
  if (decision.is_exact() && !decision.waits_for_recurrence()) return choice;
  find_class(request, decision);
  is_before_trials_ = decision.waits_for_recurrence();
  if (is_before_trials_) return choice;
  if (current_->made == current_->trial.calls) RINGPRESS_RETURN_IF_ERROR(announce(current_));
  ++current_->made;
  choice = choice_of(*current_);
  return choice;
}

void TunedCalls::note(double seconds) {
  if (current_ == nullptr || peers_.rank() != 0) return;
  const double whole = seconds / current_share_;
  if (is_before_trials_) {
    if (current_->early_times.size() < kMostEarlyTimes) current_->early_times.push_back(whole);
    return;
  }
  const bool is_settled = current_->trial.is_settled;
  if (is_settled) current_->scales.note(whole);
  if (!is_settled || !current_->scales.is_trying()) current_->tuner->note(whole);
}

std::optional<Choice> TunedCalls::quickest_exact(const PlanRequest& request,
                                                 const Decision& decision) const {
  const auto found = classes_.find(key_of(request, decision));
  if (found == classes_.end() || found->second.tuner == nullptr) return std::nullopt;
  return found->second.tuner->quickest_exact();
}

/// `decision`: as the planner has it, so that its algorithm is that of a rule or of no matter.
TunedCalls::Key TunedCalls::key_of(const PlanRequest& request, const Decision& decision) {
  const std::size_t bytes = request.count * dtype_size(request.dtype);
  std::optional<Algorithm> by;
  if (decision.algorithm_origin == Origin::kRule) by = decision.algorithm;
  return {request.kind, request.dtype, std::bit_width(bytes) - 1, by};
}

/// Sets current_ and what belongs to it.
void TunedCalls::find_class(const PlanRequest& request, const Decision& decision) {
  const std::size_t bytes = request.count * dtype_size(request.dtype);
  const std::size_t nominal = std::bit_floor(bytes);
  const Key key = key_of(request, decision);
  const auto [found, is_new] = classes_.try_emplace(key);
  current_ = &found->second;
  if (is_new) {
    current_->calls = {request.kind, request.dtype, nominal};
    current_->by = std::get<std::optional<Algorithm>>(key);
    current_->early_times.reserve(kMostEarlyTimes);
  }
  current_share_ = static_cast<double>(bytes) / static_cast<double>(nominal);
}

Status TunedCalls::Class::begin_walk(const CallSettings& settings, const TuningLimits& limits,
                                     const KnownCalibrations& calibrations) {
  const CallShape shape = calibrations.shape_of(calls.bytes);
  const Calibration& calibration = calibrations.of(calls.dtype);
  const Algorithm wanted = by.value_or(unsplit_algorithm(settings));
  RINGPRESS_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                             !settings.algorithm && !by
                                 ? tuner::find_candidates(shape, calibration)
                                 : tuner::find_candidates_by(wanted, shape, calibration));
  // Which this engine does not do.
  std::erase_if(candidates, [](const Candidate& candidate) {
    return !traits_of(candidate.choice.algorithm).runs_on_mesh;
  });
  CallShape walked = shape;
  if (settings.chunk_bytes != 0) walked.bytes = 0;  // No other chunks are tried.
  tuner = tuner::make_call_tuner(std::move(candidates), walked, limits);
  for (const double seconds : early_times) tuner->note_exact(seconds);
  early_times = {};
  return Status::ok();
}

bool TunedCalls::Class::wants_scales(const Trial& announced, bool may_have, bool is_measured) {
  if (!may_have || !is_measured) return may_have;
  return announced.is_settled ? scales.next(announced.choice) : scales.has(announced.choice);
}

/// Rank 0 says what the next calls are to be.
Status TunedCalls::announce(Class* calls) {
  RINGPRESS_RETURN_IF_ERROR(calibrations_.find());
  Announcement announcement;
  if (peers_.rank() == 0) {
    if (calls->tuner == nullptr) {
      RINGPRESS_RETURN_IF_ERROR(calls->begin_walk(settings_, limits_, calibrations_));
    }
    std::vector<TuningNote> notes;
    const Trial trial = calls->tuner->next(&notes);
    write_log(*calls, notes);
    for (const TuningNote& note : notes) {
      if (note.event == TuningEvent::kDrifted) calls->scales.forget();
    }
    RINGPRESS_ASSIGN_OR_RETURN(
        const bool may_have, may_have_scales(settings_, calibrations_, calls->calls, trial.choice));
    const bool has_scales = calls->wants_scales(trial, may_have, limits_.trials > 0);
    announcement = {epoch_ + 1,
                    trial.choice.codec,
                    static_cast<std::uint64_t>(trial.choice.algorithm),
                    trial.choice.chunk_bytes,
                    trial.calls,
                    trial.is_settled ? 1u : 0u,
                    has_scales ? 1u : 0u};
  }
  RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(bytes_of(&announcement)));
  ++epoch_;
  if (announcement.epoch != epoch_ || announcement.calls == 0 ||
      announcement.codec >= calibrations_.of(calls->calls.dtype).codecs.size() ||
      !runs_on_mesh(announcement.algorithm)) {
    return {Code::kMismatch,
            "the announcement " + std::to_string(announcement.epoch) +
                " of rank 0 is not the one that this rank expects: " + std::to_string(epoch_)};
  }
  calls->trial = {{announcement.codec, static_cast<Algorithm>(announcement.algorithm),
                   announcement.chunk_bytes},
                  static_cast<std::uint32_t>(announcement.calls),
                  announcement.is_settled != 0};
  calls->has_scales = announcement.has_scales != 0;
  calls->made = 0;
  return Status::ok();
}

void TunedCalls::write_log(const Class& calls, const std::vector<TuningNote>& notes) {
  for (const TuningNote& note : notes) {
    const std::string& codec = calibrations_.of(calls.calls.dtype).codecs[note.choice.codec].codec;
    const std::string line = tuning_log_line(calls.calls, note, codec);
    log_line(LogLevel::kInfo, "%s", line.c_str());
    if (!settings_.tuning_log.empty()) append_to_tuning_log(settings_.tuning_log, line);
    if (note.event == TuningEvent::kDrifted) calibrations_.drop_file();
  }
}

TunedChoice TunedCalls::choice_of(const Class& calls) const {
  const Choice& choice = calls.trial.choice;
  return {calibrations_.of(calls.calls.dtype).codecs[choice.codec].codec, choice.algorithm,
          choice.chunk_bytes, calls.trial.is_settled, calls.has_scales};
}

void TunedCalls::save(StateWriter& to) const {
  calibrations_.save(to);
  if (!calibrations_.are_found()) return;
  to.put(epoch_);
  const auto is_settled = [](const auto& entry) { return entry.second.trial.is_settled; };
  to.put(static_cast<std::uint64_t>(std::count_if(classes_.begin(), classes_.end(), is_settled)));
  for (const auto& entry : classes_) {
    if (!is_settled(entry)) continue;
    const auto& [kind, dtype, size, by] = entry.first;
    const Trial& trial = entry.second.trial;
    to.put(kind);
    to.put(dtype);
    to.put<std::int32_t>(size);
    to.put(by.has_value());
    to.put(by.value_or(Algorithm::kSra));
    to.put<std::uint64_t>(trial.choice.codec);
    to.put(trial.choice.algorithm);
    to.put<std::uint64_t>(trial.choice.chunk_bytes);
    to.put(trial.calls);
    to.put(entry.second.has_scales);
  }
}

void TunedCalls::load_class(StateReader& from) {
  const auto kind = static_cast<CollectiveKind>(from.get_below(kCollectiveKindCount));
  const auto dtype = static_cast<DType>(from.get_below(kDTypeCount));
  const auto size = from.get<std::int32_t>();
  const bool has_rule = from.get<bool>();
  const auto rule = static_cast<Algorithm>(from.get_below(kAlgorithmCount));
  const auto codec = static_cast<std::size_t>(from.get<std::uint64_t>());
  const auto algorithm = from.get<std::uint8_t>();
  const auto chunk_bytes = static_cast<std::size_t>(from.get<std::uint64_t>());
  const auto calls = from.get<std::uint32_t>();
  const bool has_scales = from.get<bool>();
  from.require(is_compressible(dtype) && size >= 0 && size < 62 && calls > 0);
  from.require(runs_on_mesh(algorithm));
  if (!from.is_ok()) return;
  from.require(codec < calibrations_.of(dtype).codecs.size());
  if (!from.is_ok()) return;
  std::optional<Algorithm> by;
  if (has_rule) by = rule;
  Class& made = classes_[Key{kind, dtype, size, by}];
  made.calls = {kind, dtype, std::size_t{1} << size};
  made.by = by;
  made.trial = {{codec, static_cast<Algorithm>(algorithm), chunk_bytes}, calls, true};
  made.has_scales = has_scales;
  made.scales.resume(made.trial.choice, has_scales);
  if (peers_.rank() != 0) return;
  from.require(made.begin_walk(settings_, limits_, calibrations_).is_ok());
  if (from.is_ok()) made.tuner->resume(made.trial.choice);
}

void TunedCalls::load(StateReader& from) {
  calibrations_.load(from);
  if (!calibrations_.are_found()) return;
  epoch_ = from.get<std::uint64_t>();
  const std::size_t classes = from.get_count(sizeof(std::uint64_t));
  for (std::size_t i = 0; i < classes && from.is_ok(); ++i) load_class(from);
}

void TunedCalls::adopt(TunedCalls&& loaded) {
  current_ = nullptr;
  calibrations_.adopt(std::move(loaded.calibrations_));
  classes_ = std::move(loaded.classes_);
  epoch_ = loaded.epoch_;
}

}  // namespace ringpress::nccl_plugin::tuning
