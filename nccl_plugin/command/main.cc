// ringpress: the command for people who start jobs.
//
//   ringpress run [--dry-run] [--library FOLDER] [--] CMD... CMD with NCCL's variables set
//   ringpress doctor [--json] [PROGRAM]                      which doors work here, and why not
//   ringpress params [--json]                                all settings
//   ringpress plan [--svg FILE] JOB.json                     what to compress in a training step
//   ringpress schedule CLUSTER.json JOBS.json                which jobs of a cluster run, and where
//   ringpress explain SIZE DTYPE NRANKS [--rate R]           what an all-reduce would take,
//   predicted
//   ringpress report [-o PAGE.html] [--json] [--text] FILE... what a job did, as a page
//
// Exit status 2: a bad command line. `run`: that of CMD; 125 to 127 if it was not started.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "nccl_plugin/command/doctor.h"
#include "nccl_plugin/command/explain/explain.h"
#include "nccl_plugin/command/params.h"
#include "nccl_plugin/command/plan/plan.h"
#include "nccl_plugin/command/report/report_options.h"
#include "nccl_plugin/command/run.h"
#include "nccl_plugin/command/schedule/schedule.h"
#include "nccl_plugin/command/terminal/error.h"
#include "nccl_plugin/command/terminal/standard_output.h"
#include "ringpress/version.h"

namespace ringpress::nccl_plugin::command {
namespace {

constexpr int kBadUsage = 2;

/// CLI::Range lets through what compares with nothing.
const CLI::Validator kFinite(
    [](const std::string& text) {
      return std::isfinite(std::strtod(text.c_str(), nullptr)) ? std::string()
                                                               : text + " is not finite";
    },
    "", "finite");

/// Of a variable that a script has not set, for one.
const CLI::Validator kNotEmpty(
    [](const std::string& text) { return text.empty() ? std::string("is empty") : std::string(); },
    "", "not empty");

struct CommandLine {
  CLI::App app{"Compressed all-reduce for NCCL programs: start them, look at what is there.",
               "ringpress"};
  CLI::App* run = app.add_subcommand("run", "start a program whose NCCL uses this library");
  CLI::App* doctor = app.add_subcommand("doctor", "which doors work in this environment");
  CLI::App* params = app.add_subcommand("params", "all settings, their values and origins");
  CLI::App* plan = app.add_subcommand("plan", "what to compress in a training step, predicted");
  CLI::App* schedule = app.add_subcommand("schedule", "which jobs of a cluster run, and where");
  CLI::App* explain = app.add_subcommand("explain", "what a call would take, predicted");
  CLI::App* report = app.add_subcommand("report", "what a job did, from the files it has left");
  RunOptions run_options;
  PlanOptions plan_options;
  ScheduleOptions schedule_options;
  ExplainOptions explain_options;
  DoctorOptions doctor_options;
  ReportOptions report_options;
  bool json = false;

  CommandLine() {
    app.require_subcommand(1);
    app.set_version_flag("--version", RINGPRESS_VERSION);
    run->footer("usage: ringpress run [--dry-run] [--library FOLDER] [--] CMD...");
    run->add_flag("--dry-run", run_options.dry_run, "say what would be set, start nothing");
    run->add_option("--library", run_options.library_folder,
                    "where libnccl-net-ringpress.so is; default: beside this program");
    doctor->add_flag("--json", doctor_options.json, "for programs");
    doctor->add_option("PROGRAM", doctor_options.program,
                       "that the job starts, such as torchrun: the verdict is of its NCCL. "
                       "Default: PyTorch's of python3, VIRTUAL_ENV or CONDA_PREFIX");
    params->add_flag("--json", json, "for programs");
    plan->add_option("JOB", plan_options.job_file, "a job file; perf/jobs/ has some")->required();
    plan->add_option("--svg", plan_options.svg_file, "draw the step into this file");
    plan->add_option("--options", plan_options.options,
                     "what this library runs, or all of the paper")
        ->check(CLI::IsMember({"engine", "tree"}));
    plan->add_option("--search", plan_options.search,
                     "the paper's, or one that ends nearer the best")
        ->check(CLI::IsMember({"repeated", "paper"}));
    plan->add_option("--codec", plan_options.codec,
                     "for a job without compressor: measured here; default: q4");
    plan->add_flag("--json", plan_options.json, "for programs");
    plan->add_flag("--summary", plan_options.summary, "no line for each tensor");
    add_schedule_options();
    add_explain_options();
    add_report_options(report, &report_options);
    for (CLI::App* const command : {run, doctor, params, plan, schedule, explain, report}) {
      for (CLI::Option* const option : command->get_options()) option->check(kNotEmpty);
    }
  }

  void add_schedule_options() {
    ScheduleOptions& options = schedule_options;
    schedule->add_option("CLUSTER", options.cluster_file, "a cluster file; perf/gadget/ has one")
        ->required();
    schedule->add_option("JOBS", options.jobs_file, "a file of jobs")->required();
    schedule->add_option("--policy", options.policy, "who gets what")
        ->check(CLI::IsMember({"gadget", "gadget-lp", "fifo", "drf", "las"}))
        ->capture_default_str();
    schedule->add_option("--slots", options.slots, "at most so many")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    schedule
        ->add_option("--lp-seconds", options.lp_seconds,
                     "of gadget-lp for a slot; then the slot has what gadget makes of it")
        ->check(CLI::Range(0.0, 1e6))
        ->check(kFinite)
        ->capture_default_str();
    schedule->add_option("--svg", options.svg_file, "draw the placements into this file");
    schedule->add_option("--load-svg", options.load_file,
                         "draw the utility of all policies against the number of jobs");
    CLI::Option* const launch = schedule->add_option(
        "--launch", options.launch_folder,
        "a folder for what starts the jobs of a slot: an mpirun rank file, a Slurm "
        "host list and torchrun lines each");
    schedule->add_option("--slot", options.launch_slot, "the slot of --launch")
        ->needs(launch)
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
    schedule->add_flag("--json", options.json, "for programs");
    schedule->add_flag("--summary", options.summary, "without the placements of each slot");
  }

  void add_explain_options() {
    ExplainOptions& options = explain_options;
    explain
        ->add_option("SIZE", options.size,
                     "bytes of the tensor, such as 64M; all: a table of sizes")
        ->required();
    explain->add_option("DTYPE", options.dtype, "float32, float16 or bfloat16")->required();
    explain->add_option("NRANKS", options.ranks, "ranks")->required();
    explain
        ->add_option("--collective", options.collective, "all_reduce, reduce_scatter or all_gather")
        ->capture_default_str();
    explain->add_option("--rate", options.rate, "of a host's link, such as 1gbit")
        ->capture_default_str();
    explain->add_option("--latency", options.latency, "of a link, such as 50us")
        ->capture_default_str();
    explain->add_option("--ranks-per-host", options.ranks_per_host, "that share its link")
        ->capture_default_str();
    explain->add_option("--inside-rate", options.inside_rate, "of each rank within its host")
        ->capture_default_str();
    explain->add_option("--inside-latency", options.inside_latency, "within a host")
        ->capture_default_str();
    explain->add_option("--codecs", options.codecs,
                        "that are compared; default: what automatic mode chooses from");
    explain->add_option("--budget", options.budget,
                        "the codec whose error is not to be exceeded; default: RINGPRESS_BUDGET");
    explain->add_flag("--json", options.json, "for programs");
    explain->add_flag("--csv", options.csv,
                      "of all sizes; the columns of NCCL's tuner files first");
  }

  bool has_command(const std::string& name) const {
    const auto is_it = [&](const CLI::App* command) { return command->get_name() == name; };
    return !app.get_subcommands(is_it).empty();
  }
};

int refuse(const std::string& text) {
  fmt::print(stderr, "ringpress: {}\n", text);
  return kBadUsage;
}

int run_schedule(const CommandLine& line) {
  const ScheduleOptions& options = line.schedule_options;
  if (line.schedule->count("--lp-seconds") > 0 && options.policy != "gadget-lp") {
    return refuse("schedule: --lp-seconds is for --policy gadget-lp");
  }
  return print_schedule(options);
}

int run_explain(const ExplainOptions& options) {
  try {
    return explain(options);
  } catch (const terminal::Error& error) {
    return refuse(std::string("explain: ") + error.what());
  }
}

bool is_word(const char* word, const char* wanted) {
  return std::strcmp(word, wanted) == 0;
}

/// Where our own words end: at the first `--`, or where the command that `run` starts begins
/// without one. What comes after is that command's, another `--` too.
char** end_of_own_words(char** argv, char** end) {
  char** const dashes =
      std::find_if(argv, end, [](const char* word) { return is_word(word, "--"); });
  if (end - argv < 2 || !is_word(argv[1], "run")) return dashes;
  for (char** word = argv + 2; word < dashes; ++word) {
    if (**word != '-') return word;
    if (is_word(*word, "--library")) ++word;  // And its value.
  }
  return dashes;
}

int run_program(int argc, char** argv) {
  char** const end = argv + argc;
  char** const dashes = end_of_own_words(argv, end);
  CommandLine line;
  const std::string first = argc > 1 && argv + 1 != dashes ? argv[1] : "";
  if (!first.empty() && first[0] != '-' && !line.has_command(first)) {
    return refuse("there is no command \"" + first +
                  "\"; there are run, doctor, params, plan, schedule, explain and report");
  }
  try {
    line.app.parse(static_cast<int>(dashes - argv), argv);
  } catch (const CLI::ParseError& error) {
    return line.app.exit(error) == 0 ? EXIT_SUCCESS : kBadUsage;
  }
  const bool has_dashes = dashes != end && is_word(*dashes, "--");
  if (dashes != end) line.run_options.command.assign(has_dashes ? dashes + 1 : dashes, end);
  if (line.run->parsed()) {
    if (line.run_options.command.empty() && !line.run_options.dry_run) {
      return refuse("run needs a command: ringpress run CMD...");
    }
    return run_command(line.run_options);
  }
  if (dashes != end) return refuse("only run takes a command after --");
  if (line.plan->parsed()) return print_plan(line.plan_options);
  if (line.schedule->parsed()) return run_schedule(line);
  if (line.explain->parsed()) return run_explain(line.explain_options);
  if (line.report->parsed()) return print_report(line.report_options);
  return line.doctor->parsed() ? run_doctor(line.doctor_options) : print_params(line.json);
}

}  // namespace
}  // namespace ringpress::nccl_plugin::command

int main(int argc, char** argv) {
  try {
    return ringpress::terminal::end_with(ringpress::nccl_plugin::command::run_program(argc, argv),
                                         "ringpress");
  } catch (const std::exception& error) {
    fmt::print(stderr, "ringpress: {}\n", error.what());
    return EXIT_FAILURE;
  }
}
