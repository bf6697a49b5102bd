// What files of a job say, as `ringpress report` keeps it. Memory does not grow with the number of
// live lines: they are added up by rank and by time.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_JOB_DATA_H_
#define NCCL_PLUGIN_COMMAND_REPORT_JOB_DATA_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nccl_plugin/command/report/time_buckets.h"

namespace ringpress::nccl_plugin::command::report {

/// What a thread in a collective call does.
inline constexpr std::array<const char*, 6> kPhases = {"wait",    "encode", "send",
                                                       "receive", "reduce", "decode"};
using PhaseSeconds = std::array<double, kPhases.size()>;

struct CodecTotals {
  std::uint64_t calls = 0;
  std::uint64_t raw_bytes = 0;
  std::uint64_t wire_bytes = 0;
};

struct CallTotals {
  std::uint64_t calls = 0;
  std::uint64_t compressed_calls = 0;
  std::uint64_t raw_bytes = 0;   // What was sent would have been so many bytes without a codec.
  std::uint64_t wire_bytes = 0;  // What was sent, headers included.
  std::map<std::string, CodecTotals> by_codec;  // Empty: not known.
  PhaseSeconds phase_seconds = {};
  bool has_phases = false;
};

struct SizeError {
  std::uint64_t count = 0;  // Elements.
  std::string type;
  std::uint64_t looks = 0;
  double last = 0, mean = 0, worst = 0;  // Relative to the exact sum, in the l2 norm.
  int more_bits = 0;
};

/// What one rank did in one communicator.
struct RankRecord {
  std::string host, comm, door;  // Empty: not known.
  std::uint64_t pid = 0;
  int rank = 0;
  int ranks = 0;
  int hosts = 0;  // 0: not known.
  CallTotals total;
  std::map<std::string, std::uint64_t> exact_calls;  // By reason.
  std::vector<SizeError> errors;
  std::uint64_t calibration_bytes = 0;
  std::uint64_t residual_bytes = 0;
  std::uint64_t observed_calls = 0;
  std::uint64_t observed_raw_bytes = 0;
  std::uint64_t unsent_tensors = 0;
  std::optional<double> call_seconds;  // In collective calls.
  std::string last_codec, last_algorithm, last_reason;
  double run_seconds = 0;       // Since it was made; 0: not known.
  bool has_statistics = false;  // A line of RINGPRESS_STATS.
  bool has_live = false;        // Live lines.
  bool has_ended = false;
};

/// Of all ranks, in a span of time.
struct Flow {
  double raw_bytes = 0, wire_bytes = 0;
  PhaseSeconds phase_seconds = {};

  void add(const Flow& other);
};

/// Of all ranks and of one size, in a span of time.
struct ErrorSpan {
  double squares = 0;  // Of the last errors.
  double worst = 0;
  std::uint64_t lines = 0;

  void add(const ErrorSpan& other);
  double mean() const;
};

using SizeName = std::pair<std::string, std::uint64_t>;  // Type and elements.

/// A line of RINGPRESS_TUNING_LOG.
struct TuningEvent {
  std::string file, collective, type, event, codec, algorithm;
  std::uint64_t min_bytes = 0, max_bytes = 0, chunk_bytes = 0, calls = 0;
  double typical_us = 0, predicted_us = 0;
};

struct TracedTensor {
  std::string name;
  std::uint64_t bytes = 0;
  double backward_us = 0;
};

/// A job file, as RINGPRESS_TRACE records one.
struct TracedStep {
  std::string file, name, note, codec;
  int machines = 0;
  double forward_ms = 0;
  double latency_us = 0, gigabytes_per_second = 0;  // Between machines.
  std::vector<TracedTensor> tensors;
};

/// A row of all_reduce_perf -J.
struct BenchmarkRow {
  std::string file, setting, codec, type;
  int ranks = 0;
  std::uint64_t bytes = 0;
  double time_us = 0, ratio = 0;
  std::optional<double> error;       // Relative, of one call,
  std::optional<double> mean_error;  // and of the mean of `mean_of` calls.
  int mean_of = 0;
  std::optional<bool> is_identical;  // All ranks had the same bytes.
};

/// A row of perf/results/fidelity-*.json.
struct FidelityRow {
  std::string file, task, method;
  int workers = 0, steps = 0;
  double loss_percent = 0, standard_error = 0, times_fewer_bytes = 0;
};

enum class FileKind { kForeign, kLines, kTuningLog, kTrace, kBenchmark, kFidelity };

/// What was made of a file.
struct FileNote {
  std::string path;
  FileKind kind = FileKind::kForeign;
  std::uint64_t statistics_lines = 0, live_lines = 0, rows = 0;
  std::uint64_t bad_lines = 0;
  std::vector<std::string> problems;  // The first few; each a sentence that names the line.

  bool is_read() const { return statistics_lines + live_lines + rows > 0; }
};

struct JobData {
  std::vector<RankRecord> records;
  TimeBuckets<Flow> flow;
  std::map<SizeName, TimeBuckets<ErrorSpan>> errors_over_time;
  std::vector<TuningEvent> tuning;
  std::uint64_t tuning_left_out = 0;
  std::vector<TracedStep> steps;
  std::vector<BenchmarkRow> benchmarks;
  std::vector<FidelityRow> fidelity;
  std::vector<FileNote> files;
};

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_JOB_DATA_H_
