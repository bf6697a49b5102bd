// all_reduce_perf: measures all-reduce of any library with the NCCL API.
//
// 1. Options; with --ranks this process starts copies of itself and only watches them.
// 2. Each rank learns its place and meets the others (session.h).
// 3. The sweep (benchmark.h); rank 0 prints a row when it is measured.
// 4. Exit status 0: all results right; 1: wrong results, too little bandwidth, or an error;
//    2: a bad command line; 124: -T passed.
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>

#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/all_reduce/benchmark.h"
#include "perf/all_reduce/device_memory.h"
#include "perf/all_reduce/json_report.h"
#include "perf/all_reduce/launch.h"
#include "perf/all_reduce/options.h"
#include "perf/all_reduce/page.h"
#include "perf/all_reduce/progress.h"
#include "perf/all_reduce/session.h"
#include "perf/all_reduce/table.h"

namespace ringpress::perf {
namespace {

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

/// What nccl-tests' variable asks for; 0: nothing.
double least_bandwidth() {
  const char* text = std::getenv("NCCL_TESTS_MIN_BW");
  if (text == nullptr) return 0;
  char* end = nullptr;
  const double minimum = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(minimum >= 0)) {
    throw terminal::Error(fmt::format("NCCL_TESTS_MIN_BW={} is no number of GB/s", text));
  }
  return minimum;
}

/// What fails in any cycle stays failed.
void judge_cycle(const std::vector<ResultRow>& rows, double least, RunDescription* run) {
  constexpr double kTolerance = 0.9;
  for (const ResultRow& row : rows) run->failed.add(row);
  run->bandwidth_ok = run->bandwidth_ok && average_bus_bandwidth(rows) >= kTolerance * least;
}

const char* of_this_process(const char* variable) {
  return std::getenv(variable);
}

void print_now(const std::string& text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

/// NCCL takes ranks with different NCCL_HOSTID for ranks of different hosts, also on one GPU.
void pretend_own_host(int rank) {
  setenv("NCCL_HOSTID", fmt::format("all_reduce_perf-rank{}", rank).c_str(), 1);
}

void write_reports(const Options& options, const std::string& json) {
  if (!options.json_path.empty()) write_text_file(options.json_path, json);
  if (options.page_path.empty()) return;
  if (!options.json_path.empty()) {
    write_page(options.json_path, options.page_path);
    return;
  }
  const TemporaryFile results;
  write_text_file(results.path(), json);
  write_page(results.path(), options.page_path);
}

int run_rank(const Options& options, const RankIdentity& identity, int argc, char** argv) {
  // Automatic mode would wait for the order of a training.
  setenv("RINGPRESS_GRADIENTS", "all", 0);
  if (options.launch.host_per_rank) pretend_own_host(identity.rank);
  for (const std::string& path : {options.json_path, options.page_path}) {
    if (identity.rank == 0 && !path.empty()) check_writable(path);
  }
  const double least = least_bandwidth();
  select_device(identity.local_rank);
  RunDescription run;
  run.arguments.assign(argv, argv + argc);
  run.start_time = time_now();
  require(ncclGetVersion(&run.library_version), "ncclGetVersion");
  Session session(options, identity);
  run.ranks = session.rank_descriptions();
  if (session.is_root()) print_now(format_preamble(options, run.library_version, run.ranks));

  Progress progress;
  Benchmark::Listener listener;
  listener.on_row = [&progress](const ResultRow& row) {
    progress.clear();
    print_now(format_row(row) + "\n");
  };
  if (options.progress) {
    listener.on_step = [&progress](const std::string& what, int step, int steps) {
      progress.step(what, step, steps);
    };
  }
  std::vector<ResultRow> rows;
  for (int cycle = 0; options.sweep.cycles == 0 || cycle < options.sweep.cycles; ++cycle) {
    Benchmark benchmark(options, session, listener);
    rows = benchmark.run();
    judge_cycle(rows, least, &run);
  }
  run.end_time = time_now();
  if (session.is_root()) {
    print_now(format_summary(rows, run.failed, run.bandwidth_ok));
    if (run.failed.all > 0) {
      fmt::print(stderr, "all_reduce_perf: {} rows failed: {}\n", run.failed.all,
                 run.failed.describe());
    }
    write_reports(options, format_json(options, run, rows));
  }
  session.control().barrier();
  return run.bandwidth_ok && run.failed.all == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run_program(int argc, char** argv) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (!parsed.run) {
    fmt::print(parsed.exit_status == 0 ? stdout : stderr, "{}", parsed.text);
    return parsed.exit_status;
  }
  const Options& options = parsed.options;
  std::string who = "all_reduce_perf";
  try {
    if (options.launch.local_ranks > 0 && options.launch.local_rank < 0) {
      return run_local_ranks(options.launch, argc, argv);
    }
    const RankIdentity identity = identity_of(options.launch);
    who = fmt::format("all_reduce_perf: rank {}", identity.rank);
    return run_rank(options, identity, argc, argv);
  } catch (const std::exception& error) {
    const std::string message = fmt::format("{}: {}", who, error.what());
    fmt::print(stderr, "{}\n", message);
    if (options.launch.local_rank < 0) tell_launcher(of_this_process, message);
    return EXIT_FAILURE;
  }
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  return ringpress::terminal::end_with(ringpress::perf::run_program(argc, argv), "all_reduce_perf");
}
