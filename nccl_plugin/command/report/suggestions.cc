// What to change, each with the number that has led to it.
#include <fmt/core.h>

#include <algorithm>

#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/reasons.h"
#include "nccl_plugin/command/report/summary.h"
#include "nccl_plugin/session/settings/budget_error.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

/// From which share of calls a reason is worth a suggestion.
constexpr double kManyCalls = 0.2;

class Suggestions {
 public:
  explicit Suggestions(const Summary& summary) : summary_(summary) {}

  void look_at_reasons();
  void look_at_errors();
  void look_at_phases();
  void look_at_lateness();
  void look_at_bytes();

  std::vector<Suggestion> all() && { return std::move(all_); }

 private:
  void add(std::string setting, std::string text) {
    all_.push_back({std::move(setting), std::move(text)});
  }
  std::string calls_text(std::uint64_t calls) const {
    const std::uint64_t possible = summary_.possible_calls();
    return fmt::format("{} of calls ({} of {} that can be compressed)",
                       percent_text(static_cast<double>(calls), static_cast<double>(possible)),
                       calls, possible);
  }
  void suggest(ExactReason reason, std::uint64_t calls, const std::string& text);
  std::string how_to_lose_less() const;

  const Summary& summary_;
  std::vector<Suggestion> all_;
};

/// The setting that a reason is changed by; null: it needs no change.
const char* setting_of(ExactReason reason) {
  switch (reason) {
    case ExactReason::kTooSmall:
      return "RINGPRESS_MIN_BYTES";
    case ExactReason::kOneHost:
      return "nothing to gain";
    case ExactReason::kNoGradient:
      return "RINGPRESS_GRADIENTS";
    case ExactReason::kNotRecurred:
      return "the program's calls";
    case ExactReason::kOff:
    case ExactReason::kObserved:
      return "RINGPRESS";
    case ExactReason::kDeniedByRule:
      return "RINGPRESS_RULES";
    case ExactReason::kCodecNone:
      return "RINGPRESS_CODEC";
    case ExactReason::kBudgetNone:
    case ExactReason::kBudgetUnmet:
    case ExactReason::kLosesTooMuch:
    case ExactReason::kNothingGained:
      return "RINGPRESS_BUDGET";
    case ExactReason::kCaptured:
      return "RINGPRESS_GRAPH";
    case ExactReason::kNonblocking:
      return "blocking communicators";
    case ExactReason::kNoMemoryForTensor:
    case ExactReason::kNoMemoryForGraph:
    case ExactReason::kNoMemoryOnRank:
      return "memory";
    case ExactReason::kCannotBegin:
      return "an error";
    case ExactReason::kSavesNothing:
    case ExactReason::kNotInStreams:
    case ExactReason::kUnknownTensor:
    case ExactReason::kProjectsWholeTensors:
    case ExactReason::kAllReducesOnly:
    case ExactReason::kGraphRepeatsBits:
      return "the codec";
    default:
      return nullptr;
  }
}

/// Reasons of one kind differ in numbers and codecs: they are one suggestion.
void Suggestions::look_at_reasons() {
  std::vector<std::pair<ExactReason, ReasonSum>> kinds;
  for (const ReasonSum& sum : summary_.reasons) {
    const ExactReason reason = find_reason(sum.reason).value_or(ExactReason::kCannotBegin);
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& kind) { return kind.first == reason; });
    if (same == kinds.end()) {
      kinds.emplace_back(reason, sum);
    } else {
      same->second.calls += sum.calls;
    }
  }
  for (const auto& [reason, sum] : kinds) suggest(reason, sum.calls, sum.reason);
}

void Suggestions::suggest(ExactReason reason, std::uint64_t calls, const std::string& text) {
  const char* const setting = setting_of(reason);
  if (setting == nullptr || calls == 0) return;
  const bool is_many =
      static_cast<double>(calls) >= kManyCalls * static_cast<double>(summary_.possible_calls());
  const bool is_fault = reason == ExactReason::kCannotBegin || reason == ExactReason::kLosesTooMuch;
  if (!is_many && !is_fault) return;
  add(setting, fmt::format("{} were not compressed: {}. {}", calls_text(calls), text,
                           explanation_of(reason).what_to_do));
}

/// The one that usually loses most; empty: of none it is known.
std::string coarsest_codec(const std::vector<std::string>& codecs) {
  std::string coarsest;
  for (const std::string& codec : codecs) {
    if (usual_error(codec) > usual_error(coarsest)) coarsest = codec;
  }
  return coarsest;
}

std::string Suggestions::how_to_lose_less() const {
  const std::string_view less = codec_that_loses_less(coarsest_codec(summary_.lossy_codecs));
  if (less == kLosslessCodec) return "RINGPRESS=lossless loses nothing.";
  return fmt::format("RINGPRESS_BUDGET={} loses less, in all calls.", less);
}

void Suggestions::look_at_errors() {
  const SizeError* worst = nullptr;
  double worst_part = 0;
  const double usual = usual_error(coarsest_codec(summary_.lossy_codecs));
  for (const SizeError& error : summary_.errors) {
    const double part = usual > 0 ? error.mean / usual : error.mean;
    if (part > worst_part) {
      worst = &error;
      worst_part = part;
    }
  }
  if (worst == nullptr) return;
  const std::string size = fmt::format("{} values ({})", worst->count, worst->type);
  if (usual > 0 && worst_part > 2) {
    add("RINGPRESS_BUDGET",
        fmt::format("Sums of {} were off by {} on average, {} times what the codec usually loses "
                    "({}). {}",
                    size, number_text(worst->mean), number_text(worst_part), number_text(usual),
                    how_to_lose_less()));
  }
  const SizeError& most = *std::max_element(
      summary_.errors.begin(), summary_.errors.end(),
      [](const SizeError& a, const SizeError& b) { return a.more_bits < b.more_bits; });
  if (most.more_bits > 0) {
    add("RINGPRESS_BUDGET",
        fmt::format(
            "Sums of {} values ({}) lost more than the budget allows, so they have {} now. {}",
            most.count, most.type, counted(static_cast<std::uint64_t>(most.more_bits), "more bit"),
            how_to_lose_less()));
  }
}

void Suggestions::look_at_phases() {
  const PhaseSeconds& seconds = summary_.total.phase_seconds;
  double all = 0;
  for (const double phase : seconds) all += phase;
  if (!summary_.total.has_phases || all <= 0) return;
  const double codec = seconds[1] + seconds[5];
  const double network = seconds[2] + seconds[3];
  if (codec > 0.4 * all) {
    add("processors",
        fmt::format(
            "{} of the time in calls went into encoding and decoding ({} of {}). Give each "
            "rank a core more (RINGPRESS_PROGRESS_THREAD moves bytes in a thread of its own).",
            percent_text(codec, all), seconds_text(codec), seconds_text(all)));
  }
  if (network > 0.5 * all && summary_.total.compressed_calls > 0 &&
      10 * summary_.total.compressed_calls > 9 * summary_.possible_calls()) {
    add("RINGPRESS_BUDGET",
        fmt::format("{} of the time in calls went into sending and receiving ({} of {}), with all "
                    "calls compressed. A codec with fewer bits would shorten it, and lose more.",
                    percent_text(network, all), seconds_text(network), seconds_text(all)));
  }
}

void Suggestions::look_at_lateness() {
  const std::optional<Lateness> late = find_lateness(summary_);
  if (!late || late->most_seconds < 1) return;
  const double whole = late->is_wait ? late->most->phase_seconds() : late->most_seconds;
  const bool is_much =
      late->most_seconds > 1.5 * late->least_seconds && late->most_seconds > 0.3 * whole;
  if (!is_much) return;
  add("a slow rank",
      fmt::format("{} comes late: it {} {}, {} {}. The others wait for it. Look at what its host "
                  "computes, reads or shares.",
                  late->least->name(), late->is_wait ? "waited" : "was in calls for",
                  seconds_text(late->least_seconds), late->most->name(),
                  seconds_text(late->most_seconds)));
  all_.back().text[0] = 'R';
}

void Suggestions::look_at_bytes() {
  const auto wire = static_cast<double>(summary_.total.wire_bytes);
  const auto calibration = static_cast<double>(summary_.calibration_bytes);
  if (wire > 0 && calibration > 0.05 * wire) {
    add("RINGPRESS_CACHE",
        fmt::format("{} of what was sent were measurements of the links. RINGPRESS_CACHE=FOLDER "
                    "keeps them for the next job.",
                    percent_text(calibration, wire)));
  }
  if (summary_.unsent_tensors > 0) {
    add("RINGPRESS_LAZY",
        fmt::format(
            "{} had been put off and were never sent. Call ringpressLazyFlush before the end.",
            counted(summary_.unsent_tensors, "tensor")));
  }
}

}  // namespace

std::vector<Suggestion> suggestions_of(const Summary& summary, const JobData& data) {
  if (data.records.empty()) return {};
  Suggestions suggestions(summary);
  suggestions.look_at_lateness();
  suggestions.look_at_errors();
  suggestions.look_at_reasons();
  suggestions.look_at_phases();
  suggestions.look_at_bytes();
  return std::move(suggestions).all();
}

}  // namespace ringpress::nccl_plugin::command::report
