// step_perf: training steps replayed through the library, and what the planner predicted of them.
//
// 1. Options; with --ranks this process starts copies of itself and only watches them.
// 2. The ranks meet; link and codec are measured; the job's calls are priced by the cost model.
// 3. Steps of all strategies in turn; rank 0 prints medians beside the predictions.
// Exit status: 0; 1: an error; 2: a bad command line or job file.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/plan/job_file.h"
#include "nccl_plugin/command/plan/text_file.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/all_reduce/json_report.h"
#include "perf/all_reduce/options.h"
#include "perf/all_reduce/session.h"
#include "perf/step/measure.h"
#include "perf/step/ranks.h"
#include "perf/step/replay.h"
#include "perf/step/speeds.h"
#include "ringpress/internal/settings.h"

namespace ringpress::perf {
namespace {

struct StepOptions {
  std::string job_file;
  double size_factor = 1;
  double time_factor = 1;
  std::string codec = "q4";
  int warmup_steps = 3;
  int steps = 11;
  int automatic_steps = 0;  // 0: none.
  std::string json_path;
  Options ranks;  // What all_reduce_perf needs to make them.
};

void add_options(CLI::App& app, StepOptions* options) {
  app.add_option("JOB", options->job_file, "a job file, as ringpress plan takes it")->required();
  app.add_option("--sizes", options->size_factor, "factor for the tensors' sizes")
      ->check(CLI::PositiveNumber);
  app.add_option("--times", options->time_factor, "factor for the times of compute")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--codec", options->codec, "codec of what is compressed")->capture_default_str();
  app.add_option("-n,--steps", options->steps, "measured steps of each strategy")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-w,--warmup", options->warmup_steps, "steps of each strategy before them")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--automatic", options->automatic_steps,
                 "then so many steps with RINGPRESS_CODEC=auto, which finds codecs and its plan by "
                 "itself, and the measured ones after them")
      ->check(CLI::PositiveNumber);
  app.add_option("-J", options->json_path, "write what was measured to this file, as JSON");
  add_rank_options(app, &options->ranks);
}

std::size_t scaled(std::size_t bytes, double factor) {
  const double floats = std::round(static_cast<double>(bytes) * factor / sizeof(float));
  return static_cast<std::size_t>(std::max(1.0, floats)) * sizeof(float);
}

/// The job as this run plays it: on the ranks that there are.
espresso::Job read_job(const StepOptions& options) {
  const Result<std::string> text = nccl_plugin::command::read_text_file(options.job_file);
  if (!text.is_ok()) throw terminal::Error(options.job_file + ": " + text.status().message());
  Result<espresso::Job> parsed = nccl_plugin::command::parse_job(text.value());
  if (!parsed.is_ok()) throw terminal::Error(options.job_file + ":" + parsed.status().message());
  espresso::Job job = std::move(parsed).value();
  job.forward_seconds *= options.time_factor;
  for (espresso::Tensor& tensor : job.tensors) {
    tensor.bytes = scaled(tensor.bytes, options.size_factor);
    tensor.backward_seconds *= options.time_factor;
  }
  return job;
}

void price(const Speeds& speeds, int ranks, espresso::Job* job) {
  job->cluster.machines = static_cast<std::size_t>(ranks);
  job->cluster.gpus_per_machine = 1;
  job->cluster.between = {speeds.link.latency_seconds, speeds.link.bytes_per_second};
  job->cluster.inside = job->cluster.between;
  job->compressor = {};
  const Status priced = espresso::price_calls(speeds.exact, speeds.codec,
                                              settings_from_environment().minimum_bytes, job);
  if (!priced.is_ok()) throw terminal::Error(priced.message());
}

void print_automatic(int steps_before, const Automatic& automatic) {
  fmt::print("automatic, after {} steps: {:.1f} ms; of the calls of {} steps\n", steps_before,
             1e3 * automatic.measured.seconds(), automatic.measured.steps.size());
  for (const auto& [reason, count] : automatic.calls) {
    fmt::print("  {} {}{}\n", count, reason.empty() ? "compressed" : "exact: ", reason);
  }
  fmt::print("\n");
}

void print_table(const Speeds& speeds, const espresso::Job& job,
                 const std::vector<Strategy>& strategies, const std::vector<Measured>& measured) {
  double bytes = 0, backward = 0;
  for (const espresso::Tensor& tensor : job.tensors) {
    bytes += static_cast<double>(tensor.bytes);
    backward += tensor.backward_seconds;
  }
  fmt::print("{}: {} tensors, {:.1f} MB; forward {:.1f} ms, backward {:.1f} ms; {} ranks\n",
             job.name, job.tensors.size(), 1e-6 * bytes, 1e3 * job.forward_seconds, 1e3 * backward,
             job.cluster.machines);
  fmt::print(
      "measured first: a link of {:.1f} us and {:.1f} MB/s; {}, ratio {:.3f}, encode {:.2f}, "
      "decode {:.2f}, hop {:.2f} GB/s\n\n",
      1e6 * speeds.link.latency_seconds, 1e-6 * speeds.link.bytes_per_second, speeds.codec.codec,
      speeds.codec.ratio, 1e-9 / speeds.codec.encode.seconds_per_byte,
      1e-9 / speeds.codec.decode.seconds_per_byte, 1e-9 / speeds.codec.hop.seconds_per_byte);
  fmt::print(
      "| strategy | compressed | predicted ms | measured ms | predicted / measured |\n"
      "|---|---|---|---|---|\n");
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    fmt::print("| {} | {:g} | {:.1f} | {:.1f} | {:.3f} |\n", strategies[i].name,
               measured[i].compressed_calls, 1e3 * strategies[i].predicted_seconds,
               1e3 * measured[i].seconds(),
               strategies[i].predicted_seconds / measured[i].seconds());
  }
  fmt::print("\n");
}

void write_json(const StepOptions& options, const Speeds& speeds, const espresso::Job& job,
                const std::vector<Strategy>& strategies, const std::vector<Measured>& measured) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    rows.push_back({{"strategy", strategies[i].name},
                    {"compressed", strategies[i].compresses},
                    {"compressed_calls", measured[i].compressed_calls},
                    {"predicted_seconds", strategies[i].predicted_seconds},
                    {"measured_seconds", measured[i].seconds()},
                    {"steps", measured[i].steps}});
  }
  const nlohmann::ordered_json result = {{"job", job.name},
                                         {"ranks", job.cluster.machines},
                                         {"size_factor", options.size_factor},
                                         {"time_factor", options.time_factor},
                                         {"latency_seconds", speeds.link.latency_seconds},
                                         {"bytes_per_second", speeds.link.bytes_per_second},
                                         {"codec", speeds.codec.codec},
                                         {"strategies", rows}};
  write_text_file(options.json_path, result.dump(1) + "\n");
}

void run_rank(StepOptions options, espresso::Job job) {
  const RankIdentity identity = identity_of_many(options.ranks);
  options.ranks.settings = communicators_of(options.codec, options.automatic_steps > 0);
  const Session session(options.ranks, identity);
  const Speeds speeds = measure_speeds(session.measured(0), options.codec);
  price(speeds, identity.ranks, &job);
  const std::vector<Strategy> strategies = strategies_of(job);
  const std::vector<Measured> measured =
      measure(session, job, strategies, options.warmup_steps, options.steps);
  if (session.is_root()) {
    print_table(speeds, job, strategies, measured);
    if (!options.json_path.empty()) write_json(options, speeds, job, strategies, measured);
  }
  if (options.automatic_steps > 0) {
    const Automatic automatic =
        measure_automatic(session, job, options.automatic_steps, options.steps);
    if (session.is_root()) print_automatic(options.automatic_steps, automatic);
  }
  session.control().barrier();
}

int run_program(int argc, char** argv) {
  StepOptions options;
  CLI::App app{"Training steps replayed through the library, beside what the planner predicts.",
               "step_perf"};
  add_options(app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kBadUsage;
  }
  espresso::Job job;
  try {
    job = read_job(options);
  } catch (const terminal::Error& error) {
    fmt::print(stderr, "step_perf: {}\n", error.what());
    return kBadUsage;
  }
  return run_ranks(options.ranks, argc, argv, "step_perf",
                   [&] { run_rank(options, std::move(job)); });
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  setenv("RINGPRESS_GRADIENTS", "all", 0);  // Whatever the tensors of its job are.
  return ringpress::terminal::end_with(ringpress::perf::run_program(argc, argv), "step_perf");
}
