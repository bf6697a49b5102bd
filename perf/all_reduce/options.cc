#include "perf/all_reduce/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "nccl_plugin/command/terminal/codec_list.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/size.h"
#include "perf/all_reduce/elements.h"

namespace ringpress::perf {
namespace {

constexpr std::string_view kDescription =
    "Measures all-reduce through the NCCL API, with the flags and the table of nccl-tests.\n"
    "Ranks come from --ranks N, or from torchrun, mpirun or srun.";

/// A flag of nccl-tests that has no meaning here: accepted with its neutral value only.
struct UnsupportedFlag {
  const char* names;
  const char* neutral;
  const char* reason;
};

constexpr UnsupportedFlag kUnsupportedFlags[] = {
    {"-t,--nthreads", "1", "one thread per process; use --ranks N for more ranks on this host"},
    {"-g,--ngpus", "1", "one device per process; use --ranks N for more ranks on this host"},
    {"-p,--parallel_init", "0", "ranks are processes and always initialise in parallel"},
    {"-y,--stream_null", "0", "calls go to a stream of their own, if there are streams"},
    {"-G,--cudagraph", "0", "calls are not captured in graphs"},
    {"-C,--report_cputime", "0", "wall time is the only time"},
    {"-S,--report_timestamps", "0", "timestamps are in the JSON file (-J)"},
    {"-R,--local_register", "0", "buffers are not registered"},
    {"-x,--cta_policy", "0", "that is left to the library"},
    {"-D,--device_implementation", "0", "there is no device-side implementation"},
    {"-V,--device_cta_count", "0", "there is no device-side implementation"},
    {"-M,--memory_report", "0", "memory is not reported"},
    {"-u,--unalign", "0", "alignment is covered by the tests"},
    {"-I,--per_iter_timing", "0", "times of single iterations are in the JSON file (-J)"},
    {"-K,--per_iter_output", "0", "times of single iterations are in the JSON file (-J)"},
};

/// CLI11's own say their limits with hundreds of digits, and let through what is no number.
CLI::Validator from(double least) {
  const auto problem_of = [least](const std::string& text) {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool is_number = end != text.c_str() && *end == '\0' && std::isfinite(value);
    if (is_number && value >= least) return std::string();
    return text + " is no number from " + (least == 0 ? "0" : "1") + " on";
  };
  return {problem_of, "", "from"};
}
const CLI::Validator kFromZero = from(0);
const CLI::Validator kFromOne = from(1);
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return text.empty() ? std::string("is empty") : std::string(); },
    "", "not empty");

/// What the command line holds as text before it is checked.
struct RawOptions {
  std::string minimum_bytes;
  std::string maximum_bytes;
  std::string step_bytes = "1M";
  int check = 1;
  int blocking = 0;
  int average = 1;
  std::string codec;
  std::string algorithm;
  std::string compare;
  std::string placement = "both";
  std::map<std::string, std::string> unsupported;
};

void add_nccl_tests_flags(CLI::App& app, Options& options, RawOptions& raw) {
  app.add_option("-b,--minbytes", raw.minimum_bytes, "smallest size, e.g. 4K (default 32M)");
  app.add_option("-e,--maxbytes", raw.maximum_bytes, "largest size (default 32M)");
  app.add_option("-i,--stepbytes", raw.step_bytes, "increment between sizes (default 1M)");
  app.add_option("-f,--stepfactor", options.sweep.step_factor,
                 "factor between sizes, instead of -i")
      ->check(kFromOne);
  app.add_option("-n,--iters", options.timing.iterations, "timed iterations (default 20)")
      ->check(kFromOne);
  app.add_option("-w,--warmup_iters", options.timing.warmup_iterations,
                 "untimed iterations (default 1)")
      ->check(kFromZero);
  app.add_option("-m,--agg_iters", options.timing.calls_per_iteration,
                 "calls in one group per iteration (default 1)")
      ->check(kFromOne);
  app.add_option("-N,--run_cycles", options.sweep.cycles, "repeat the sweep N times, 0: for ever")
      ->check(kFromZero);
  app.add_option("-c,--check", raw.check,
                 "check the results; 0: do not. Any other number is as 1 (default 1)")
      ->check(kFromZero);
  app.add_option("-o,--op", options.sweep.operation, "sum, prod, max, min, avg, mulsum or all");
  app.add_option("-d,--datatype", options.sweep.data_type, "nccl-tests' type name, or all");
  app.add_option("-r,--root", options.sweep.root,
                 "accepted for nccl-tests; an all-reduce has no root");
  app.add_option("-z,--blocking", raw.blocking, "1: a barrier before each iteration")
      ->check(CLI::Range(0, 1));
  app.add_option("-a,--average", raw.average,
                 "time over ranks: 0 rank 0, 1 mean (default), 2 minimum, 3 maximum")
      ->check(CLI::Range(0, 3));
  app.add_option("-T,--timeout", options.launch.timeout_seconds,
                 "end the ranks of --ranks after so many seconds (default 1800)")
      ->check(kFromOne);
  app.add_option("-J,--output_file", options.json_path, "write results as JSON to this file");
}

void add_own_flags(CLI::App& app, Options& options, RawOptions& raw) {
  app.add_option("--ranks", options.launch.local_ranks, "start N ranks on this host")
      ->check(CLI::Range(1, 1024));
  app.add_flag("--host-per-rank", options.launch.host_per_rank,
               "NCCL_HOSTID=...RANK: NCCL sees as many hosts as ranks, which may share a GPU");
  app.add_option("--codec", raw.codec, "codec specification, e.g. q4:block=128 (RINGPRESS_CODEC)");
  app.add_option("--algo", raw.algorithm, "ring, sra or auto (RINGPRESS_ALGO)");
  app.add_option("--compare", raw.compare,
                 "codec specifications to interleave in one run: a,b@ring,c; times are medians");
  app.add_option("--input", options.inputs,
                 "float32 .npy with %d for the rank; several are joined, repeated to the size");
  app.add_option("--placement", raw.placement, "both, out-of-place or in-place (default both)")
      ->check(CLI::IsMember({"both", "out-of-place", "in-place"}));
  app.add_option("--max-relerr", options.checks.maximum_relative_error,
                 "fail when the relative error is larger; 0: exact")
      ->check(kFromZero);
  app.add_flag("--require-codec", options.checks.requires_codec,
               "fail when a timed call goes by another codec or algorithm than --codec, --algo or "
               "--compare names");
  app.add_option("--mean-of", options.checks.mean_calls,
                 "make N more calls out of place: how far their mean is off, after error feedback")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--plot", options.page_path,
                 "write a page with pictures: speed-up against size, error against bits");
  app.add_option("--seed", options.seed, "seed of the generated input, from 0 on")
      ->check(kFromZero);
  app.add_option("--id-file", options.launch.id_file,
                 "file on a shared disk through which rank 0 hands out the unique id");
  app.add_flag("--p50", options.timing.median,
               "print median times; with --compare they always are (spread: see -J)");
  app.add_flag("--progress", options.progress, "report progress on standard error");
  app.add_option("--local-rank", options.launch.local_rank)->group("");
  app.add_option("--id-descriptor", options.launch.id_descriptor)->group("");
}

void check_unsupported(const RawOptions& raw) {
  for (const UnsupportedFlag& flag : kUnsupportedFlags) {
    const auto found = raw.unsupported.find(flag.names);
    if (found == raw.unsupported.end() || found->second.empty()) continue;
    if (found->second == flag.neutral) continue;
    throw terminal::Error(std::string(flag.names) + " " + found->second +
                          " is not supported: " + flag.reason);
  }
}

Placement placement_of(const std::string& text) {
  if (text == "out-of-place") return Placement::kOutOfPlace;
  return text == "in-place" ? Placement::kInPlace : Placement::kBoth;
}

void check_names(const Options& options) {
  if (options.sweep.data_type != "all") find_element_type(options.sweep.data_type);
  if (options.sweep.operation != "all") find_operation(options.sweep.operation);
  for (const std::string& input : options.inputs) {
    const std::size_t percent = input.find('%');
    const bool one_rank_field = percent != std::string::npos &&
                                input.compare(percent, 2, "%d") == 0 &&
                                input.find('%', percent + 1) == std::string::npos;
    if (!one_rank_field) throw terminal::Error("--input " + input + ": needs exactly one %d");
  }
  if (!options.inputs.empty() &&
      (options.sweep.data_type != "float" || options.sweep.operation != "sum")) {
    throw terminal::Error("--input works with -d float -o sum only");
  }
}

void check_options(Options& options, const RawOptions& raw) {
  check_unsupported(raw);
  if (!raw.minimum_bytes.empty())
    options.sweep.minimum_bytes = terminal::parse_size(raw.minimum_bytes);
  if (!raw.maximum_bytes.empty())
    options.sweep.maximum_bytes = terminal::parse_size(raw.maximum_bytes);
  if (raw.maximum_bytes.empty() && !raw.minimum_bytes.empty()) {
    options.sweep.maximum_bytes =
        std::max(options.sweep.maximum_bytes, options.sweep.minimum_bytes);
  }
  if (!options.inputs.empty() && raw.minimum_bytes.empty() && raw.maximum_bytes.empty()) {
    options.sweep.minimum_bytes = options.sweep.maximum_bytes = 0;  // The size of the input.
  }
  options.sweep.step_bytes = terminal::parse_size(raw.step_bytes);
  options.checks.results = raw.check != 0;
  options.timing.barrier_between = raw.blocking != 0;
  options.timing.average = static_cast<Average>(raw.average);
  options.timing.placement = placement_of(raw.placement);
  if (!raw.compare.empty() && !raw.codec.empty()) {
    throw terminal::Error("--codec and --compare exclude each other");
  }
  if (raw.compare.empty()) {
    options.settings = {
        {raw.codec.empty() ? "default" : raw.codec, raw.codec, raw.algorithm, "--codec"}};
  } else {
    options.settings = parse_settings_list(raw.compare);
    for (Setting& setting : options.settings) {
      if (setting.algorithm.empty()) setting.algorithm = raw.algorithm;
    }
  }
  check_names(options);
  if (options.sweep.step_bytes == 0) throw terminal::Error("-i: sizes that are 0 bytes apart");
  const auto names_any = [](const Setting& setting) {
    return !setting.codec.empty() || !setting.algorithm.empty();
  };
  if (options.checks.requires_codec &&
      std::none_of(options.settings.begin(), options.settings.end(), names_any)) {
    throw terminal::Error("--require-codec needs --codec, --algo or --compare, which name one");
  }
  if (!options.checks.results && options.checks.maximum_relative_error) {
    throw terminal::Error("--max-relerr needs the check of results that -c 0 switches off");
  }
  if (options.checks.mean_calls > 0 && !options.checks.results) {
    throw terminal::Error("--mean-of needs the check of results that -c 0 switches off");
  }
  if (options.checks.mean_calls > 0 && options.timing.placement == Placement::kInPlace) {
    throw terminal::Error("--mean-of makes calls out of place, which --placement leaves out");
  }
  if (options.sweep.minimum_bytes > options.sweep.maximum_bytes) {
    throw terminal::Error("-b is larger than -e");
  }
}

}  // namespace

std::vector<Setting> parse_settings_list(const std::string& text) {
  std::vector<Setting> settings;
  for (const std::string& specification : terminal::split_codecs("--compare", text)) {
    const std::size_t at = specification.find('@');
    const bool has_algorithm = at != std::string::npos;
    if (has_algorithm && at + 1 == specification.size()) {
      throw terminal::Error("--compare: " + specification + " names no algorithm after its @");
    }
    settings.push_back({specification, specification.substr(0, at),
                        has_algorithm ? specification.substr(at + 1) : "", "--compare"});
  }
  return settings;
}

std::vector<std::size_t> sweep_sizes(const Options& options) {
  std::vector<std::size_t> sizes;
  std::size_t bytes = options.sweep.minimum_bytes;
  while (bytes <= options.sweep.maximum_bytes) {
    sizes.push_back(bytes);
    const std::size_t next = options.sweep.step_factor > 1 ? bytes * options.sweep.step_factor
                                                           : bytes + options.sweep.step_bytes;
    if (next <= bytes) break;
    bytes = next;
  }
  return sizes;
}

ParsedOptions parse_options(int argc, const char* const* argv) {
  ParsedOptions parsed;
  RawOptions raw;
  CLI::App app{std::string(kDescription), "all_reduce_perf"};
  add_nccl_tests_flags(app, parsed.options, raw);
  add_own_flags(app, parsed.options, raw);
  for (const UnsupportedFlag& flag : kUnsupportedFlags) {
    app.add_option(flag.names, raw.unsupported[flag.names])->group("");
  }
  for (CLI::Option* const option : app.get_options()) option->check(kNotEmpty);
  try {
    app.parse(argc, argv);
    check_options(parsed.options, raw);
    parsed.run = true;
  } catch (const CLI::CallForHelp&) {
    parsed.text = app.help();
  } catch (const CLI::ParseError& error) {
    parsed.exit_status = 2;
    parsed.text = std::string("all_reduce_perf: ") + error.what() + " (-h lists the options)\n";
  } catch (const terminal::Error& error) {
    parsed.exit_status = 2;
    parsed.text = std::string("all_reduce_perf: ") + error.what() + "\n";
  }
  return parsed;
}

}  // namespace ringpress::perf
