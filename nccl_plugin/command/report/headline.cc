// Is it working, and is it lossy?
#include <fmt/core.h>

#include <algorithm>

#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/summary.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

std::string who(const Summary& summary) {
  std::string text = counted(static_cast<std::uint64_t>(summary.ranks), "rank");
  if (summary.hosts > 0)
    text += " on " + counted(static_cast<std::uint64_t>(summary.hosts), "host");
  if (summary.seen_ranks < summary.ranks)
    text += fmt::format(" ({} of them have a line)", summary.seen_ranks);
  return text + ".";
}

double times_fewer(double raw, double wire) {
  return wire > 0 ? raw / wire : 0;
}

std::string what_was_compressed(const Summary& summary) {
  const CallTotals& total = summary.total;
  if (total.calls == 0) return "No collective call was made.";
  if (total.compressed_calls == 0) {
    std::string text = "Nothing was compressed";
    if (summary.observed_calls > 0) {
      return text + fmt::format(", as RINGPRESS=observe asks; {} of {} calls would be.",
                                summary.observed_calls, total.calls);
    }
    const auto reason = std::find_if(summary.reasons.begin(), summary.reasons.end(),
                                     [](const ReasonSum& sum) { return !sum.is_by_nature; });
    if (reason == summary.reasons.end()) return text + ": no call was of a kind that ever is.";
    return text + fmt::format(", most often for the reason \"{}\".", reason->reason);
  }
  const CodecTotals compressed = summary.compressed();
  if (compressed.raw_bytes > 0) {
    return fmt::format("Of the bytes {} were compressed, {} times smaller.",
                       percent_text(static_cast<double>(compressed.raw_bytes),
                                    static_cast<double>(total.raw_bytes)),
                       number_text(times_fewer(static_cast<double>(compressed.raw_bytes),
                                               static_cast<double>(compressed.wire_bytes))));
  }
  std::string text = fmt::format("{} of the {} calls that can be compressed were",
                                 total.compressed_calls, summary.possible_calls());
  const double smaller =
      times_fewer(static_cast<double>(total.raw_bytes), static_cast<double>(total.wire_bytes));
  if (smaller <= 1) return text + ".";
  return text +
         fmt::format("; all calls together sent {} times fewer bytes.", number_text(smaller));
}

std::string what_is_lost(const Summary& summary) {
  if (summary.total.compressed_calls == 0) return "Nothing was lost.";
  if (!summary.lossy_codecs.empty()) {
    std::string names;
    for (const std::string& codec : summary.lossy_codecs)
      names += (names.empty() ? "" : ", ") + codec;
    return fmt::format("Gradients lost something ({}).", names);
  }
  if (!summary.errors.empty()) return "Gradients lost something.";
  for (const auto& [codec, totals] : summary.total.by_codec) {
    if (codec == kLosslessCodec && totals.calls > 0) return "Nothing was lost (lossless).";
  }
  return "The lines do not say by which codec: gradients may have lost something.";
}

std::string who_waited(const Summary& summary) {
  const std::optional<Lateness> late = find_lateness(summary);
  if (!late || late->most_seconds < 1.2 * late->least_seconds) return "";
  if (late->is_wait) {
    return fmt::format(" Rank {} waited most ({}), rank {} least ({}).", late->most->rank,
                       seconds_text(late->most_seconds), late->least->rank,
                       seconds_text(late->least_seconds));
  }
  return fmt::format(" Rank {} was in calls longest ({}), rank {} least ({}).", late->most->rank,
                     seconds_text(late->most_seconds), late->least->rank,
                     seconds_text(late->least_seconds));
}

std::string without_ranks(const JobData& data) {
  if (!data.benchmarks.empty()) return "Results of all_reduce_perf; there are no lines of ranks.";
  if (!data.tuning.empty()) return "The tuner's log; there are no lines of ranks.";
  if (!data.steps.empty()) return "A recorded training step; there are no lines of ranks.";
  if (!data.fidelity.empty()) return "Results of trainings; there are no lines of ranks.";
  return "Nothing could be read.";
}

}  // namespace

std::string headline_of(const Summary& summary, const JobData& data) {
  if (data.records.empty()) return without_ranks(data);
  return who(summary) + " " + what_was_compressed(summary) + " " + what_is_lost(summary) +
         who_waited(summary);
}

}  // namespace ringpress::nccl_plugin::command::report
