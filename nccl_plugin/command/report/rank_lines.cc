#include "nccl_plugin/command/report/rank_lines.h"

#include <algorithm>
#include <utility>

namespace ringpress::nccl_plugin::command::report {
namespace {

/// Of these a job has few; more are of a file that is not what it says.
constexpr std::size_t kMostRecords = 100000;
constexpr std::size_t kMostNames = 256;
constexpr std::size_t kMostSizes = 64;

CallTotals totals_of(const Json& json) {
  CallTotals totals;
  totals.calls = count_of(json, "calls");
  totals.compressed_calls = count_of(json, "compressed_calls");
  totals.raw_bytes = count_of(json, "raw_bytes");
  totals.wire_bytes = count_of(json, "wire_bytes");
  if (const Json* const codecs = find_member(json, "by_codec"); codecs && codecs->is_object()) {
    for (const auto& [codec, of_codec] : codecs->items()) {
      if (totals.by_codec.size() == kMostNames) break;
      totals.by_codec[codec] = {count_of(of_codec, "calls"), count_of(of_codec, "raw_bytes"),
                                count_of(of_codec, "wire_bytes")};
    }
  }
  if (const Json* const phases = find_member(json, "phase_seconds")) {
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      const std::optional<double> seconds = number_of(*phases, kPhases[i]);
      totals.has_phases = totals.has_phases || seconds.has_value();
      totals.phase_seconds[i] = std::max(0.0, seconds.value_or(0));
    }
  }
  return totals;
}

std::map<std::string, std::uint64_t> reasons_in(const Json& line) {
  std::map<std::string, std::uint64_t> reasons;
  const Json* const counts = find_member(line, "exact_calls");
  if (counts == nullptr || !counts->is_object()) return reasons;
  for (const auto& [reason, count] : counts->items()) {
    if (reasons.size() == kMostNames) break;
    reasons[reason] = count_of(count);
  }
  return reasons;
}

std::vector<SizeError> errors_in(const Json& line) {
  std::vector<SizeError> errors;
  const Json* const list = find_member(line, "errors");
  if (list == nullptr || !list->is_array()) return errors;
  for (const Json& item : *list) {
    if (errors.size() == kMostNames) break;
    const auto error = [&](const char* name) { return number_of(item, name).value_or(0); };
    errors.push_back({count_of(item, "count"), text_of(item, "type"), count_of(item, "looks"),
                      error("last"), error("mean"), error("worst"),
                      small_count_of(item, "more_bits")});
  }
  return errors;
}

/// Whose line it is, and what both kinds of lines have.
RankRecord record_of(const Json& line) {
  RankRecord record;
  record.host = text_of(line, "host");
  record.comm = text_of(line, "comm");
  record.door = text_of(line, "door");
  record.pid = count_of(line, "pid");
  record.rank = small_count_of(line, "rank");
  record.ranks = small_count_of(line, "ranks");
  record.hosts = small_count_of(line, "hosts");
  return record;
}

void read_state(const Json& line, RankRecord* record) {
  record->exact_calls = reasons_in(line);
  record->errors = errors_in(line);
  record->residual_bytes = count_of(line, "residual_bytes");
  record->last_codec = text_of(line, "last_codec");
  record->last_algorithm = text_of(line, "last_algorithm");
}

std::string problem_of_ranks(const RankRecord& record) {
  if (record.ranks == 0 || record.rank < record.ranks) return "";
  return "rank " + std::to_string(record.rank) + " of " + std::to_string(record.ranks) +
         " is no rank";
}

std::string too_many() {
  return "left out: more than " + std::to_string(kMostRecords) + " communicators and ranks";
}

std::uint64_t more(std::uint64_t now, std::uint64_t before) {
  return now > before ? now - before : 0;
}

/// What the line says of its interval, or else what is new since the line before.
Flow flow_of(const Json& line, const CallTotals& now, const CallTotals& before) {
  const Json* const interval = find_member(line, "interval");
  CallTotals part;
  if (interval != nullptr && interval->is_object()) {
    part = totals_of(*interval);
  } else {
    part.raw_bytes = more(now.raw_bytes, before.raw_bytes);
    part.wire_bytes = more(now.wire_bytes, before.wire_bytes);
    for (std::size_t i = 0; i < kPhases.size(); ++i) {
      part.phase_seconds[i] = std::max(0.0, now.phase_seconds[i] - before.phase_seconds[i]);
    }
  }
  return {static_cast<double>(part.raw_bytes), static_cast<double>(part.wire_bytes),
          part.phase_seconds};
}

void add_errors(double time, const std::vector<SizeError>& errors, JobData* data) {
  for (const SizeError& error : errors) {
    const SizeName name(error.type, error.count);
    const auto found = data->errors_over_time.find(name);
    if (found == data->errors_over_time.end() && data->errors_over_time.size() == kMostSizes)
      return;
    data->errors_over_time[name].add(time, {error.last * error.last, error.last, 1});
  }
}

/// A communicator has the same calls in both kinds of lines, if the last live line is of its end.
bool is_same(const RankRecord& live, const RankRecord& statistics) {
  return live.pid == statistics.pid && live.rank == statistics.rank &&
         live.ranks == statistics.ranks && live.total.calls == statistics.total.calls &&
         live.total.raw_bytes == statistics.total.raw_bytes;
}

/// What was called since the last live line is only in the other one.
bool may_be_same(const RankRecord& live, const RankRecord& statistics) {
  return live.pid == statistics.pid && live.rank == statistics.rank &&
         live.ranks == statistics.ranks && !live.has_ended &&
         live.total.calls <= statistics.total.calls &&
         live.total.raw_bytes <= statistics.total.raw_bytes;
}

void join_into(RankRecord* live, const RankRecord& statistics) {
  CallTotals total = statistics.total;
  total.by_codec = live->total.by_codec;
  total.phase_seconds = live->total.phase_seconds;
  total.has_phases = live->total.has_phases;
  RankRecord joined = statistics;
  joined.total = std::move(total);
  joined.host = live->host;
  joined.comm = live->comm;
  joined.door = live->door;
  joined.hosts = live->hosts;
  joined.run_seconds = live->run_seconds;
  joined.has_live = true;
  *live = std::move(joined);
}

}  // namespace

bool is_statistics_line(const Json& line) {
  return line.is_object() && line.contains("pid") && line.contains("ranks") &&
         line.contains("compressed_calls") && line.contains("exact_calls");
}

bool is_live_line(const Json& line) {
  return text_of(line, "ringpress") == "live";
}

std::string RankLines::add_statistics(const Json& line) {
  RankRecord record = record_of(line);
  if (std::string problem = problem_of_ranks(record); !problem.empty()) return problem;
  if (data_->records.size() == kMostRecords) return too_many();
  record.total = totals_of(line);
  read_state(line, &record);
  record.calibration_bytes = count_of(line, "calibration_bytes");
  record.observed_calls = count_of(line, "observed_calls");
  record.observed_raw_bytes = count_of(line, "observed_raw_bytes");
  record.unsent_tensors = count_of(line, "unsent_tensors");
  record.last_reason = text_of(line, "last_reason");
  for (const char* const name : {"nanoseconds", "host_nanoseconds"}) {
    const std::optional<double> nanoseconds = number_of(line, name);
    if (nanoseconds) record.call_seconds = std::max(0.0, 1e-9 * *nanoseconds);
  }
  record.has_statistics = true;
  record.has_ended = true;
  data_->records.push_back(std::move(record));
  return "";
}

/// That of the line before, unless its calls are fewer now: then a communicator of the same name
/// has been made anew.
RankRecord& RankLines::live_record(const Json& line, const CallTotals& total) {
  RankRecord record = record_of(line);
  const Name name(record.host, record.pid, record.comm, record.rank, record.ranks);
  const auto found = live_records_.find(name);
  if (found != live_records_.end()) {
    RankRecord& known = data_->records[found->second];
    if (total.calls >= known.total.calls && !known.has_ended) return known;
  }
  live_records_[name] = data_->records.size();
  data_->records.push_back(std::move(record));
  return data_->records.back();
}

std::string RankLines::add_live(const Json& line) {
  const std::optional<double> version = number_of(line, "version");
  if (version && *version != 1) {
    return "a live line of version " + std::to_string(static_cast<long long>(*version)) +
           "; this program knows version 1";
  }
  if (std::string problem = problem_of_ranks(record_of(line)); !problem.empty()) return problem;
  if (data_->records.size() == kMostRecords) return too_many();
  const Json* const now = find_member(line, "total");
  if (now == nullptr || !now->is_object()) return "a live line without \"total\"";
  CallTotals total = totals_of(*now);
  RankRecord& record = live_record(line, total);
  const double time = number_of(line, "time").value_or(0);
  data_->flow.add(time, flow_of(line, total, record.total));
  read_state(line, &record);
  add_errors(time, record.errors, data_);
  record.total = std::move(total);
  record.hosts = std::max(record.hosts, small_count_of(line, "hosts"));
  record.run_seconds = number_of(line, "seconds").value_or(record.run_seconds);
  record.has_live = true;
  const Json* const final = find_member(line, "final");
  record.has_ended = final != nullptr && final->is_boolean() && final->get<bool>();
  return "";
}

void RankLines::join() {
  std::vector<RankRecord>& records = data_->records;
  std::vector<bool> is_joined(records.size());
  std::map<std::tuple<std::uint64_t, int, int>, std::vector<std::size_t>> live;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (records[i].has_live) {
      live[{records[i].pid, records[i].rank, records[i].ranks}].push_back(i);
    }
  }
  for (const auto same : {is_same, may_be_same}) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      if (records[i].has_live || is_joined[i]) continue;
      const auto found = live.find({records[i].pid, records[i].rank, records[i].ranks});
      if (found == live.end()) continue;
      for (const std::size_t at : found->second) {
        if (records[at].has_statistics || !same(records[at], records[i])) continue;
        join_into(&records[at], records[i]);
        is_joined[i] = true;
        break;
      }
    }
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (is_joined[i]) continue;
    if (kept != i) records[kept] = std::move(records[i]);
    ++kept;
  }
  records.resize(kept);
}

}  // namespace ringpress::nccl_plugin::command::report
