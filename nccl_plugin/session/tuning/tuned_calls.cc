#include "nccl_plugin/session/tuning/tuned_calls.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/errors/warn_once.h"
#include "nccl_plugin/session/calls/comm_shape.h"
#include "ringpress/internal/codec.h"
#include "ringpress/internal/log.h"
#include "tuner/factory.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

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

// Characters, in a state.
constexpr std::uint64_t kLongestCalibration = std::uint64_t{64} * 1024;

std::span<std::byte> bytes_of(Announcement* announcement) {
  return std::as_writable_bytes(std::span(announcement, 1));
}

std::size_t position_of(DType dtype) {
  for (std::size_t i = 0; i < kTunedTypes.size(); ++i) {
    if (kTunedTypes[i] == dtype) return i;
  }
  throw std::logic_error("a type that is never compressed");
}

std::string own_host() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "?";
  return name;
}

/// The same on all ranks of the same hosts, but for a coincidence, which still_hold() notices.
Result<std::string> name_hosts(Peers& peers, const std::string& interfaces) {
  const std::size_t hash =
      std::hash<std::string>()(own_host() + "/" + interfaces) & ((1ull << 52) - 1);
  double bounds[] = {static_cast<double>(hash), -static_cast<double>(hash)};
  RINGPRESS_RETURN_IF_ERROR(peers.max(bounds));
  return std::to_string(static_cast<std::uint64_t>(bounds[0])) + "-" +
         std::to_string(static_cast<std::uint64_t>(-bounds[1]));
}

std::string described(const LinkSpeed& link) {
  char text[64];
  std::snprintf(text, sizeof text, "latency %.0f us, %.3f Gb/s", link.latency_seconds * 1e6,
                link.bytes_per_second * 8e-9);
  return text;
}

std::string described(const Calibrations& calibrations, int ranks_per_host) {
  if (ranks_per_host == 1) return described(calibrations.link());
  return described(calibrations.link()) + " between hosts of " + std::to_string(ranks_per_host) +
         ", " + described(calibrations.inside()) + " inside";
}

TuningLimits limits_of(const CallSettings& settings) {
  TuningLimits limits;
  limits.warm_up_calls = static_cast<std::uint32_t>(settings.tuning_warm_up_calls);
  limits.calls = static_cast<std::uint32_t>(settings.tuning_calls);
  limits.trials = static_cast<std::uint32_t>(settings.tuning_trials);
  if (limits.trials == 0) limits.rematches = 0;
  return limits;
}

void warn_of_cache(const std::string& path, const Status& status) {
  warn_once("measured anew: " + path + ": " + status.message());
}

}  // namespace

TunedCalls::TunedCalls(const Settings& settings, Peers& peers, const TuningLimits& limits)
    : settings_(settings),
      interfaces_(settings.address.interfaces),
      peers_(peers),
      limits_(limits) {}

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
  } else {
    current_->tuner->note(whole);
  }
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

/// The cached text, from rank 0 to all; empty if there is none that can be trusted.
Result<std::string> TunedCalls::ask_cache(const CalibrationKey& key) {
  std::string text;
  if (peers_.rank() == 0 && !cache_path_.empty()) {
    Result<std::string> loaded = load_calibration_file(cache_path_);
    if (loaded.is_ok()) text = std::move(loaded).value();
    Status problem = loaded.status();
    if (problem.is_ok() && !text.empty()) problem = read_calibrations(text, key).status();
    if (!problem.is_ok()) {
      warn_of_cache(cache_path_, problem);
      text.clear();
    }
  }
  std::uint64_t bytes = text.size();
  RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(&bytes, 1))));
  text.resize(bytes);
  if (bytes != 0) {
    RINGPRESS_RETURN_IF_ERROR(peers_.broadcast(std::as_writable_bytes(std::span(text))));
  }
  return text;
}

Status TunedCalls::find_calibrations() {
  if (calibrations_ != nullptr) return Status::ok();
  const std::uint64_t sent_before = peers_.sent_bytes();
  Status status = ask_or_calibrate();
  calibration_bytes_ += peers_.sent_bytes() - sent_before;
  return status;
}

/// Sets calibrations_.
Status TunedCalls::ask_or_calibrate() {
  const auto begin = std::chrono::steady_clock::now();
  RINGPRESS_ASSIGN_OR_RETURN(std::string hosts, name_hosts(peers_, interfaces_));
  RINGPRESS_ASSIGN_OR_RETURN(ranks_per_host_, count_ranks_per_host(peers_));
  const CalibrationKey key{peers_.size(), ranks_per_host_, settings_.budget.codec,
                           std::move(hosts)};
  cache_path_ = calibration_path(settings_, key);
  RINGPRESS_ASSIGN_OR_RETURN(const std::string cached, ask_cache(key));
  if (!cached.empty()) {
    RINGPRESS_ASSIGN_OR_RETURN(Calibrations found, read_calibrations(cached, key));
    RINGPRESS_ASSIGN_OR_RETURN(const bool holds, still_hold(peers_, found, ranks_per_host_));
    if (holds) calibrations_ = std::make_unique<Calibrations>(std::move(found));
    if (!holds) log_line(LogLevel::kInfo, "%s no longer holds", cache_path_.c_str());
  }
  if (calibrations_ == nullptr) {
    RINGPRESS_ASSIGN_OR_RETURN(Calibrations found, calibrate(peers_, settings_, ranks_per_host_));
    calibrations_ = std::make_unique<Calibrations>(std::move(found));
    keep_calibrations(key);
  }
  const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - begin;
  log_line(LogLevel::kInfo, "%d ranks: %s; known after %.0f ms", peers_.size(),
           described(*calibrations_, ranks_per_host_).c_str(), taken.count());
  return Status::ok();
}

void TunedCalls::keep_calibrations(const CalibrationKey& key) const {
  if (peers_.rank() != 0 || cache_path_.empty()) return;
  const Status saved = save_calibration_file(cache_path_, write_calibrations(*calibrations_, key));
  if (saved.is_ok()) return;
  warn_once("what was measured is not kept: " + cache_path_ + ": " + saved.message());
}

CallShape TunedCalls::shape_of(const Class& calls) const {
  return {calls.calls.bytes, peers_.size(), ranks_per_host_};
}

/// By default, where they are all but free; otherwise the settings have said so before.
Result<bool> TunedCalls::may_have_scales(const Class& calls, const Choice& choice) const {
  const bool is_open = settings_.feedback == FeedbackChoice::kAuto && !choice.is_exact() &&
                       calls.calls.kind == CollectiveKind::kAllReduce;
  if (!is_open) return false;
  return tuner::are_scales_cheap(shape_of(calls), calibration_of(calls.calls.dtype), choice);
}

/// On rank 0: the walk over what may be chosen.
Status TunedCalls::make_tuner(Class* calls) {
  const CallShape shape = shape_of(*calls);
  const Calibration& calibration = calibration_of(calls->calls.dtype);
  const Algorithm wanted = calls->by.value_or(unsplit_algorithm(settings_));
  RINGPRESS_ASSIGN_OR_RETURN(std::vector<Candidate> candidates,
                             !settings_.algorithm && !calls->by
                                 ? tuner::find_candidates(shape, calibration)
                                 : tuner::find_candidates_by(wanted, shape, calibration));
  // Which this engine does not do.
  std::erase_if(candidates, [](const Candidate& candidate) {
    return !traits_of(candidate.choice.algorithm).runs_on_mesh;
  });
  CallShape walked = shape;
  if (settings_.chunk_bytes != 0) walked.bytes = 0;  // No other chunks are tried.
  calls->tuner = tuner::make_call_tuner(std::move(candidates), walked, limits_);
  for (const double seconds : calls->early_times) calls->tuner->note_exact(seconds);
  calls->early_times = {};
  return Status::ok();
}

/// Rank 0 says what the next calls are to be.
Status TunedCalls::announce(Class* calls) {
  RINGPRESS_RETURN_IF_ERROR(find_calibrations());
  Announcement announcement;
  if (peers_.rank() == 0) {
    if (calls->tuner == nullptr) RINGPRESS_RETURN_IF_ERROR(make_tuner(calls));
    std::vector<TuningNote> notes;
    const Trial trial = calls->tuner->next(&notes);
    write_log(*calls, notes);
    RINGPRESS_ASSIGN_OR_RETURN(const bool has_scales, may_have_scales(*calls, trial.choice));
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
      announcement.codec >= calibration_of(calls->calls.dtype).codecs.size() ||
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
    const std::string& codec = calibration_of(calls.calls.dtype).codecs[note.choice.codec].codec;
    const std::string line = tuning_log_line(calls.calls, note, codec);
    log_line(LogLevel::kInfo, "%s", line.c_str());
    if (!settings_.tuning_log.empty()) append_to_tuning_log(settings_.tuning_log, line);
    // What the file says of the link is no longer so: the next communicator measures.
    if (note.event == TuningEvent::kDrifted && !cache_path_.empty()) unlink(cache_path_.c_str());
  }
}

TunedChoice TunedCalls::choice_of(const Class& calls) const {
  const Choice& choice = calls.trial.choice;
  return {calibration_of(calls.calls.dtype).codecs[choice.codec].codec, choice.algorithm,
          choice.chunk_bytes, calls.trial.is_settled, calls.has_scales};
}

const Calibration& TunedCalls::calibration_of(DType dtype) const {
  return calibrations_->by_type[position_of(dtype)];
}

/// Of whatever ranks: that they are the same is not for this to find out.
CalibrationKey TunedCalls::key_in_state() const {
  return {0, ranks_per_host_, settings_.budget.codec, "state"};
}

void TunedCalls::save(StateWriter& to) const {
  to.put(calibrations_ != nullptr);
  if (calibrations_ == nullptr) return;
  to.put<std::int32_t>(ranks_per_host_);
  to.put_text(write_calibrations(*calibrations_, key_in_state()));
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
  from.require(codec < calibration_of(dtype).codecs.size());
  if (!from.is_ok()) return;
  std::optional<Algorithm> by;
  if (has_rule) by = rule;
  Class& made = classes_[Key{kind, dtype, size, by}];
  made.calls = {kind, dtype, std::size_t{1} << size};
  made.by = by;
  made.trial = {{codec, static_cast<Algorithm>(algorithm), chunk_bytes}, calls, true};
  made.has_scales = has_scales;
  if (peers_.rank() != 0) return;
  from.require(make_tuner(&made).is_ok());
  if (from.is_ok()) made.tuner->resume(made.trial.choice);
}

void TunedCalls::load(StateReader& from) {
  if (!from.get<bool>()) return;
  ranks_per_host_ = from.get<std::int32_t>();
  const std::string text = from.get_text(kLongestCalibration);
  if (!from.is_ok()) return;
  Result<Calibrations> found = read_calibrations(text, key_in_state());
  from.require(found.is_ok() && ranks_per_host_ > 0);
  if (!from.is_ok()) return;
  calibrations_ = std::make_unique<Calibrations>(std::move(found).value());
  epoch_ = from.get<std::uint64_t>();
  const std::size_t classes = from.get_count(sizeof(std::uint64_t));
  for (std::size_t i = 0; i < classes && from.is_ok(); ++i) load_class(from);
}

void TunedCalls::adopt(TunedCalls&& loaded) {
  current_ = nullptr;
  calibrations_ = std::move(loaded.calibrations_);
  ranks_per_host_ = loaded.ranks_per_host_;
  classes_ = std::move(loaded.classes_);
  epoch_ = loaded.epoch_;
}

}  // namespace ringpress::nccl_plugin::tuning
