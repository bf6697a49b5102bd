// The command line of all_reduce_perf: nccl-tests' flags and those of this project.
#ifndef PERF_ALL_REDUCE_OPTIONS_H_
#define PERF_ALL_REDUCE_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ringpress::perf {

/// One codec and algorithm to measure. Empty text leaves the choice to the environment.
struct Setting {
  std::string label;
  std::string codec;
  std::string algorithm;
  std::string option = "--codec";  // That names the codec.
};

/// Which buffers the timed calls use.
enum class Placement { kBoth, kOutOfPlace, kInPlace };

/// How one time is made from the ranks' times; the values are nccl-tests' -a.
enum class Average { kRankZero = 0, kMean = 1, kMinimum = 2, kMaximum = 3 };

/// What is measured.
struct SweepOptions {
  std::size_t minimum_bytes = 32 * 1024 * 1024;
  std::size_t maximum_bytes = 32 * 1024 * 1024;
  std::size_t step_bytes = 1024 * 1024;
  std::size_t step_factor = 1;
  int cycles = 1;
  std::string operation = "sum";
  std::string data_type = "float";
  int root = -1;
};

/// How calls are timed.
struct TimingOptions {
  int iterations = 20;
  int warmup_iterations = 1;
  int calls_per_iteration = 1;
  bool barrier_between = false;
  Placement placement = Placement::kBoth;
  Average average = Average::kMean;
  bool median = false;  // --p50: times are medians although only one setting is measured.
};

/// What fails a row.
struct CheckOptions {
  bool results = true;
  std::optional<double> maximum_relative_error;
  bool requires_codec = false;  // A timed call that goes by another one.
  int mean_calls = 0;           // Calls whose mean is looked at, too; 0: none.
};

/// Where ranks come from.
struct LaunchOptions {
  int local_ranks = 0;         // --ranks: start so many ranks of this host.
  int timeout_seconds = 1800;  // For these.
  bool host_per_rank = false;  // Each rank has its own NCCL_HOSTID.
  std::string id_file;         // Where rank 0 leaves the unique id.
  int local_rank = -1;         // Set in a rank that --ranks started.
  int id_descriptor = -1;      // Pipe that carries the unique id between such ranks.
};

struct Options {
  SweepOptions sweep;
  TimingOptions timing;
  CheckOptions checks;
  LaunchOptions launch;
  std::vector<Setting> settings;    // At least one; more than one are interleaved.
  std::vector<std::string> inputs;  // Files; none: values are drawn.
  std::uint64_t seed = 1;
  std::string json_path;
  std::string page_path;
  bool progress = false;

  bool interleaved() const { return settings.size() > 1; }
  bool reports_median() const { return timing.median || interleaved(); }
};

/// What parsing found: options to run with, or text to print and an exit status.
struct ParsedOptions {
  Options options;
  bool run = false;
  int exit_status = 0;
  std::string text;
};

ParsedOptions parse_options(int argc, const char* const* argv);

/// Splits "none,q4:block=64,grid=minmax,q8@ring" into settings: a part that is only `key=value`
/// belongs to the specification before it; what follows an @ names the algorithm. Throws
/// terminal::Error.
std::vector<Setting> parse_settings_list(const std::string& text);

/// The sizes of a sweep, in bytes, smallest first.
std::vector<std::size_t> sweep_sizes(const Options& options);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_OPTIONS_H_
