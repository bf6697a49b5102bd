#include <fmt/core.h>

#include <cstdlib>
#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/line/validators.h"
#include "nccl_plugin/command/plan/templates.h"
#include "nccl_plugin/command/schedule/schedule.h"

namespace ringpress::nccl_plugin::command {
namespace {

struct ScheduleWords {
  ScheduleOptions options;
  std::string wanted_template;
};

void add_files(ScheduleWords* words, CLI::App* schedule) {
  ScheduleOptions* const options = &words->options;
  schedule->add_option("CLUSTER", options->cluster_file, "a cluster file; perf/gadget/ has one");
  schedule->add_option("JOBS", options->jobs_file, "a file of jobs");
  schedule
      ->add_option("--template", words->wanted_template,
                   "print a file to begin with: cluster or jobs")
      ->check(CLI::IsMember({"cluster", "jobs"}));
  schedule->add_option("--svg", options->svg_file, "draw the placements into this file");
  schedule->add_option("--load-svg", options->load_file,
                       "draw the utility of all policies against the number of jobs");
  CLI::Option* const launch = schedule->add_option(
      "--launch", options->launch_folder,
      "a folder for what starts the jobs of a slot: an mpirun rank file, a Slurm "
      "host list and torchrun lines each");
  schedule->add_option("--slot", options->launch_slot, "the slot of --launch")
      ->needs(launch)
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
}

int run_schedule(const ScheduleWords& words, const CLI::App& schedule) {
  const ScheduleOptions& options = words.options;
  if (!words.wanted_template.empty()) {
    fmt::print("{}", words.wanted_template == "jobs" ? kJobsTemplate : kClusterTemplate);
    return EXIT_SUCCESS;
  }
  if (options.jobs_file.empty()) {
    return refuse(
        "schedule: needs a CLUSTER file and a JOBS file; --template cluster and --template jobs "
        "print such files");
  }
  if (schedule.count("--lp-seconds") > 0 && options.policy != "gadget-lp") {
    return refuse("schedule: --lp-seconds is for --policy gadget-lp");
  }
  return print_schedule(options);
}

}  // namespace

Subcommand add_schedule(CLI::App* all) {
  const auto words = std::make_shared<ScheduleWords>();
  ScheduleOptions* const options = &words->options;
  CLI::App* const schedule =
      all->add_subcommand("schedule", "which jobs of a cluster run, and where");
  add_files(words.get(), schedule);
  schedule->add_option("--policy", options->policy, "who gets what")
      ->check(CLI::IsMember({"gadget", "gadget-lp", "fifo", "drf", "las"}))
      ->capture_default_str();
  schedule->add_option("--slots", options->slots, "at most so many")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  schedule
      ->add_option("--lp-seconds", options->lp_seconds,
                   "of gadget-lp for a slot; then the slot has what gadget makes of it")
      ->check(CLI::Range(0.0, 1e6))
      ->check(finite())
      ->capture_default_str();
  schedule->add_flag("--json", options->json, "for programs");
  schedule->add_flag("--summary", options->summary, "without the placements of each slot");
  return {schedule, [words, schedule](const auto&) { return run_schedule(*words, *schedule); }};
}

}  // namespace ringpress::nccl_plugin::command
