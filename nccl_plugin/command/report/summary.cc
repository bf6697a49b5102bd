#include "nccl_plugin/command/report/summary.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "nccl_plugin/command/report/numbers.h"
#include "nccl_plugin/command/report/reasons.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin::command::report {
namespace {

void add(const CallTotals& part, CallTotals* sum) {
  sum->calls += part.calls;
  sum->compressed_calls += part.compressed_calls;
  sum->raw_bytes += part.raw_bytes;
  sum->wire_bytes += part.wire_bytes;
  for (const auto& [codec, totals] : part.by_codec) {
    CodecTotals& of_codec = sum->by_codec[codec];
    of_codec.calls += totals.calls;
    of_codec.raw_bytes += totals.raw_bytes;
    of_codec.wire_bytes += totals.wire_bytes;
  }
  for (std::size_t i = 0; i < kPhases.size(); ++i) sum->phase_seconds[i] += part.phase_seconds[i];
  sum->has_phases = sum->has_phases || part.has_phases;
}

int largest_ranks(const std::vector<RankRecord>& records) {
  int largest = 0;
  for (const RankRecord& record : records) largest = std::max(largest, record.ranks);
  return largest;
}

/// Containers often have the same process numbers on all hosts, and lines of RINGPRESS_STATS do not
/// name theirs.
bool have_equal_pids(const std::vector<RankRecord>& records, int ranks) {
  std::map<std::uint64_t, int> rank_of_pid;
  for (const RankRecord& record : records) {
    if (record.ranks != ranks || !record.host.empty()) continue;
    const auto [known, is_new] = rank_of_pid.emplace(record.pid, record.rank);
    if (!is_new && known->second != record.rank) return true;
  }
  return false;
}

using ProcessName = std::pair<std::string, std::uint64_t>;

/// The first rank of each process that has several in one communicator, as threads or by
/// ncclCommInitAll(). Communicators of `ranks` ranks alone.
std::map<ProcessName, int> first_of_several_ranks(const std::vector<RankRecord>& records,
                                                  int ranks) {
  std::map<std::pair<ProcessName, std::string>, std::set<int>> ranks_of_communicator;
  for (const RankRecord& record : records) {
    if (record.ranks != ranks || record.host.empty()) continue;
    ranks_of_communicator[{{record.host, record.pid}, record.comm}].insert(record.rank);
  }
  std::map<ProcessName, int> first;
  for (const auto& [name, numbers] : ranks_of_communicator) {
    if (numbers.size() > 1) first.emplace(name.first, *numbers.begin());
  }
  return first;
}

/// One for each rank of a process that has several: what is in smaller communicators alone counts
/// for the first one.
std::vector<ProcessSum> processes_of(const std::vector<RankRecord>& records) {
  const int ranks = largest_ranks(records);
  const bool by_rank = have_equal_pids(records, ranks);
  const std::map<ProcessName, int> several = first_of_several_ranks(records, ranks);
  std::map<std::tuple<std::string, std::uint64_t, int>, ProcessSum> processes;
  for (const RankRecord& record : records) {
    int rank = by_rank && record.host.empty() ? record.rank : 0;
    if (const auto first = several.find({record.host, record.pid}); first != several.end()) {
      rank = record.ranks == ranks ? record.rank : first->second;
    }
    ProcessSum& process = processes[{record.host, record.pid, rank}];
    process.host = record.host;
    process.pid = record.pid;
    if (process.communicators == 0 || record.ranks > process.ranks) {
      process.rank = record.rank;
      process.ranks = record.ranks;
    }
    process.has_ended = record.has_ended && (process.communicators == 0 || process.has_ended);
    ++process.communicators;
    add(record.total, &process.total);
    process.residual_bytes += record.residual_bytes;
    if (record.call_seconds) {
      process.call_seconds = process.call_seconds.value_or(0) + *record.call_seconds;
    }
  }
  std::vector<ProcessSum> list;
  for (auto& [name, process] : processes) list.push_back(std::move(process));
  std::stable_sort(list.begin(), list.end(), [](const ProcessSum& a, const ProcessSum& b) {
    return std::pair(-a.ranks, a.rank) < std::pair(-b.ranks, b.rank);
  });
  return list;
}

std::vector<ReasonSum> reasons_of(const std::vector<RankRecord>& records) {
  std::map<std::string, std::uint64_t> calls;
  for (const RankRecord& record : records) {
    for (const auto& [reason, count] : record.exact_calls) calls[reason] += count;
  }
  std::vector<ReasonSum> reasons;
  for (const auto& [reason, count] : calls) {
    const std::optional<ExactReason> known = find_reason(reason);
    reasons.push_back({reason, count, known && is_by_nature(*known)});
  }
  std::stable_sort(reasons.begin(), reasons.end(),
                   [](const ReasonSum& a, const ReasonSum& b) { return a.calls > b.calls; });
  return reasons;
}

/// Ranks look at the same sums: the largest of their numbers of looks is that of all.
std::vector<SizeError> errors_of(const std::vector<RankRecord>& records) {
  std::map<SizeName, SizeError> sums;
  std::map<SizeName, double> squares, lines;
  for (const RankRecord& record : records) {
    for (const SizeError& error : record.errors) {
      const SizeName name(error.type, error.count);
      SizeError& sum = sums[name];
      sum.count = error.count;
      sum.type = error.type;
      sum.looks = std::max(sum.looks, error.looks);
      sum.last = std::max(sum.last, error.last);
      sum.worst = std::max(sum.worst, error.worst);
      sum.more_bits = std::max(sum.more_bits, error.more_bits);
      const auto weight = static_cast<double>(std::max<std::uint64_t>(1, error.looks));
      squares[name] += weight * error.mean * error.mean;
      lines[name] += weight;
    }
  }
  std::vector<SizeError> errors;
  for (auto& [name, sum] : sums) {
    sum.mean = std::sqrt(squares[name] / lines[name]);
    errors.push_back(sum);
  }
  std::stable_sort(errors.begin(), errors.end(),
                   [](const SizeError& a, const SizeError& b) { return a.count > b.count; });
  return errors;
}

bool loses(const std::string& codec) {
  const std::string name = short_codec(codec);
  return !name.empty() && !is_no_codec(name) && name != kLosslessCodec;
}

std::vector<std::string> lossy_codecs_of(const std::vector<RankRecord>& records) {
  std::set<std::string> names;
  for (const RankRecord& record : records) {
    for (const auto& [codec, totals] : record.total.by_codec) {
      if (totals.calls > 0 && loses(codec)) names.insert(short_codec(codec));
    }
    if (record.total.compressed_calls > 0 && loses(record.last_codec)) {
      names.insert(short_codec(record.last_codec));
    }
  }
  return {names.begin(), names.end()};
}

std::string rank_list(const std::vector<int>& numbers) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, numbers.size()); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(numbers[i]);
  }
  return text + (numbers.size() > kMost ? " and others" : "");
}

/// Of the largest communicator: which ranks have a line, and which have several processes.
void look_at_ranks(Summary* summary) {
  std::map<int, std::size_t> processes_of_rank;
  std::size_t strangers = 0;
  for (const ProcessSum& process : summary->processes) {
    if (process.ranks == summary->ranks) {
      ++processes_of_rank[process.rank];
    } else {
      ++strangers;
    }
  }
  summary->seen_ranks = static_cast<int>(processes_of_rank.size());
  std::vector<int> missing;
  for (int rank = 0; rank < summary->ranks && missing.size() < 100; ++rank) {
    if (processes_of_rank.count(rank) == 0) missing.push_back(rank);
  }
  for (const auto& [rank, count] : processes_of_rank) {
    if (count < 2) continue;
    summary->warnings.push_back(
        "These are files of several runs: rank " + std::to_string(rank) + " of " +
        std::to_string(summary->ranks) + " has lines of " + std::to_string(count) +
        " processes. All figures are of these runs together. Give the files of one run to see it "
        "alone.");
    break;
  }
  if (strangers > 0) {
    summary->warnings.push_back(
        std::to_string(strangers) + (strangers == 1 ? " process is" : " processes are") +
        " in no communicator of " + std::to_string(summary->ranks) +
        " ranks, the largest: there may be files of several runs, of different numbers of ranks.");
  }
  if (!missing.empty()) {
    summary->warnings.push_back(
        std::to_string(summary->seen_ranks) + " of " + std::to_string(summary->ranks) +
        " ranks have a line; there is none of rank " + rank_list(missing) +
        ". A process that a signal or _exit() ends writes no line of RINGPRESS_STATS.");
  }
}

void look_at_ends(Summary* summary) {
  std::vector<int> open;
  for (const ProcessSum& process : summary->processes) {
    if (!process.has_ended) open.push_back(process.rank);
  }
  if (open.empty()) return;
  summary->warnings.push_back("Rank " + rank_list(open) +
                              " had not ended, or was ended early: its last line is not its end.");
}

}  // namespace

std::string ProcessSum::name() const {
  return "rank " + std::to_string(rank) + (host.empty() ? "" : " on " + host);
}

double ProcessSum::phase_seconds() const {
  double sum = 0;
  for (const double seconds : total.phase_seconds) sum += seconds;
  return sum;
}

std::uint64_t Summary::possible_calls() const {
  std::uint64_t never = 0;
  for (const ReasonSum& sum : reasons) never += sum.is_by_nature ? sum.calls : 0;
  return total.calls - std::min(total.calls, never);
}

CodecTotals Summary::compressed() const {
  CodecTotals sum;
  for (const auto& [codec, totals] : total.by_codec) {
    if (is_no_codec(codec)) continue;
    sum.calls += totals.calls;
    sum.raw_bytes += totals.raw_bytes;
    sum.wire_bytes += totals.wire_bytes;
  }
  return sum;
}

std::optional<Lateness> find_lateness(const Summary& summary) {
  Lateness found;
  for (const ProcessSum& process : summary.processes) {
    if (process.ranks != summary.ranks) continue;
    const bool is_wait = process.total.has_phases;
    if (found.most != nullptr && is_wait != found.is_wait) return std::nullopt;
    if (!is_wait && !process.call_seconds) return std::nullopt;
    found.is_wait = is_wait;
    const double seconds = is_wait ? process.wait_seconds() : *process.call_seconds;
    if (found.most == nullptr || seconds > found.most_seconds) {
      found.most = &process;
      found.most_seconds = seconds;
    }
    if (found.least == nullptr || seconds < found.least_seconds) {
      found.least = &process;
      found.least_seconds = seconds;
    }
  }
  if (found.most == found.least || found.most_seconds <= found.least_seconds) return std::nullopt;
  return found;
}

Summary summarize(const JobData& data) {
  Summary summary;
  summary.ranks = largest_ranks(data.records);
  summary.processes = processes_of(data.records);
  for (const RankRecord& record : data.records) {
    add(record.total, &summary.total);
    summary.hosts = std::max(summary.hosts, record.hosts);
    summary.observed_calls += record.observed_calls;
    summary.observed_raw_bytes += record.observed_raw_bytes;
    summary.calibration_bytes += record.calibration_bytes;
    summary.unsent_tensors += record.unsent_tensors;
    if (record.call_seconds) {
      summary.call_seconds = summary.call_seconds.value_or(0) + *record.call_seconds;
    }
  }
  summary.reasons = reasons_of(data.records);
  summary.errors = errors_of(data.records);
  summary.lossy_codecs = lossy_codecs_of(data.records);
  if (!data.records.empty()) {
    look_at_ranks(&summary);
    look_at_ends(&summary);
  }
  summary.headline = headline_of(summary, data);
  summary.suggestions = suggestions_of(summary, data);
  return summary;
}

}  // namespace ringpress::nccl_plugin::command::report
