// step_program: a program that trains, in one of several shapes, as it is: the library does with it
// what the environment says (RINGPRESS_TRACE, RINGPRESS_CODEC and others). Ranks are started by
// --ranks, or by what starts ranks (perf/shaped.sh).
//
// Rank 0 prints the median step, and with -J writes all of them.
// Exit status: 0; 1: an error; 2: a bad command line.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "perf/all_reduce/json_report.h"
#include "perf/all_reduce/session.h"
#include "perf/step/ranks.h"
#include "perf/step/shapes.h"

namespace ringpress::perf {
namespace {

struct ProgramOptions {
  std::string shape = "waits";
  std::string compute = "sleeps";
  double forward_ms = 6;
  double backward_ms = 2;
  std::vector<double> kilobytes;
  int steps = 60;
  int last = 20;
  std::string json_path;
  Options ranks;  // What all_reduce_perf needs to make them.
};

void add_options(CLI::App& app, ProgramOptions* options) {
  app.add_option("KB", options->kilobytes, "sizes of the tensors, in KB, as backward makes them")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--shape", options->shape, "who waits for whom")
      ->check(CLI::IsMember(shape_names()))
      ->capture_default_str();
  app.add_option("--compute", options->compute, "how the program computes")
      ->check(CLI::IsMember(compute_names()))
      ->capture_default_str();
  app.add_option("--forward", options->forward_ms, "ms of compute before the first gradient's")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--backward", options->backward_ms, "ms of compute of each gradient")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-n,--steps", options->steps, "steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--last", options->last, "of so many of them, the last, the median is told")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("-J", options->json_path, "write what steps took to this file, as JSON");
  add_rank_options(app, &options->ranks);
}

ProgramParts parts_of(const ProgramOptions& options) {
  ProgramParts parts;
  parts.shape = shape_of(options.shape);
  parts.compute = compute_of(options.compute);
  parts.forward_seconds = 1e-3 * options.forward_ms;
  parts.backward_seconds = 1e-3 * options.backward_ms;
  for (const double kilobytes : options.kilobytes) {
    parts.tensor_bytes.push_back(
        sizeof(float) * std::max<std::size_t>(1, static_cast<std::size_t>(kilobytes * 1000 / 4)));
  }
  return parts;
}

/// A communicator as the environment says, blocking or not; ended with its object.
class ProgramComm {
 public:
  ProgramComm(const Session& session, bool is_blocking) {
    ncclUniqueId id = {};
    if (session.is_root()) require(ncclGetUniqueId(&id), "ncclGetUniqueId");
    session.control().broadcast(&id, sizeof id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = is_blocking ? 1 : 0;
    const ncclResult_t begun =
        ncclCommInitRankConfig(&comm_, session.ranks(), id, session.rank(), &config);
    if (begun != ncclInProgress) require(begun, "ncclCommInitRankConfig");
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) require(ncclCommGetAsyncError(comm_, &state), "its state");
    require(state, "ncclCommInitRankConfig", comm_);
  }
  ~ProgramComm() { ncclCommDestroy(comm_); }
  ProgramComm(const ProgramComm&) = delete;
  ProgramComm& operator=(const ProgramComm&) = delete;

  ncclComm_t handle() const { return comm_; }

 private:
  ncclComm_t comm_ = nullptr;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void run_rank(const ProgramOptions& options) {
  const Session session(options.ranks, identity_of_many(options.ranks));
  const ProgramParts parts = parts_of(options);
  std::vector<double> steps;
  {
    const ProgramComm comm(session, !Program::is_nonblocking(parts.shape));
    Program program(parts, comm.handle());
    for (int step = 0; step < options.steps; ++step) steps.push_back(program.run());
  }
  session.control().barrier();
  if (!session.is_root()) return;
  const auto last =
      static_cast<std::ptrdiff_t>(std::min(steps.size(), static_cast<std::size_t>(options.last)));
  const double seconds = median({steps.end() - last, steps.end()});
  fmt::print("{}, {}: {} ranks, {} tensors, {:.3f} ms a step\n", options.shape, options.compute,
             session.ranks(), parts.tensor_bytes.size(), 1e3 * seconds);
  if (options.json_path.empty()) return;
  const nlohmann::ordered_json result = {{"shape", options.shape},
                                         {"compute", options.compute},
                                         {"ranks", session.ranks()},
                                         {"seconds", seconds},
                                         {"steps", steps}};
  write_text_file(options.json_path, result.dump() + "\n");
}

int run_program(int argc, char** argv) {
  ProgramOptions options;
  CLI::App app{"A program that trains, in one of several shapes.", "step_program"};
  add_options(app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : kBadUsage;
  }
  return run_ranks(options.ranks, argc, argv, "step_program", [&] { run_rank(options); });
}

}  // namespace
}  // namespace ringpress::perf

int main(int argc, char** argv) {
  setenv("RINGPRESS_GRADIENTS", "all", 0);  // Whatever the tensors of its job are.
  return ringpress::terminal::end_with(ringpress::perf::run_program(argc, argv), "step_program");
}
