// What a job did, from all that its files say.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_H_
#define NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nccl_plugin/command/report/job_data.h"

namespace ringpress::nccl_plugin::command::report {

/// All communicators of one process, or of one rank where a process has several.
struct ProcessSum {
  std::string host;  // Empty: not known.
  std::uint64_t pid = 0;
  int rank = 0;  // In its largest communicator.
  int ranks = 0;
  CallTotals total;
  std::optional<double> call_seconds;
  std::uint64_t residual_bytes = 0;
  std::size_t communicators = 0;
  bool has_ended = false;

  std::string name() const;
  /// Of all phases.
  double phase_seconds() const;
  double wait_seconds() const { return total.phase_seconds[0]; }
};

struct ReasonSum {
  std::string reason;
  std::uint64_t calls = 0;
  bool is_by_nature = false;  // Such calls are never compressed.
};

/// By how long ranks waited for others, or, where that is not known, by their time in calls.
struct Lateness {
  const ProcessSum* most = nullptr;   // Waited most.
  const ProcessSum* least = nullptr;  // Waited least: it comes last.
  double most_seconds = 0, least_seconds = 0;
  bool is_wait = false;  // Else times in calls.
};

struct Suggestion {
  std::string setting;  // What is to be changed: a setting, or a thing.
  std::string text;     // A sentence or two, with the number that has led to it.
};

struct Summary {
  int ranks = 0;       // Of the largest communicator; 0: there are no lines of ranks.
  int seen_ranks = 0;  // Of these.
  int hosts = 0;       // 0: not known.
  std::vector<ProcessSum> processes;  // By rank.
  CallTotals total;
  std::vector<ReasonSum> reasons;  // Most calls first.
  std::vector<SizeError> errors;   // Most values first.
  std::vector<std::string> lossy_codecs;
  std::uint64_t observed_calls = 0, observed_raw_bytes = 0;
  std::uint64_t calibration_bytes = 0, unsent_tensors = 0;
  std::optional<double> call_seconds;
  std::vector<std::string> warnings;  // Of runs that are mixed, and of ranks that are missing.
  std::string headline;               // Is it working, and is it lossy.
  std::vector<Suggestion> suggestions;

  /// That were compressed, or could be with other settings.
  std::uint64_t possible_calls() const;
  /// Of calls that were compressed. Only where codecs are known.
  CodecTotals compressed() const;
};

/// Its headline and suggestions are there, too.
Summary summarize(const JobData& data);

/// Of two ranks or more whose times differ; else none.
std::optional<Lateness> find_lateness(const Summary& summary);

/// For summarize(): of a summary that has all else.
std::string headline_of(const Summary& summary, const JobData& data);
std::vector<Suggestion> suggestions_of(const Summary& summary, const JobData& data);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_H_
