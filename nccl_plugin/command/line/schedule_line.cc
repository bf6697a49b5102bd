#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/line/validators.h"
#include "nccl_plugin/command/schedule/schedule.h"

namespace ringpress::nccl_plugin::command {
namespace {

void add_files(const std::shared_ptr<ScheduleOptions>& options, CLI::App* schedule) {
  schedule->add_option("CLUSTER", options->cluster_file, "a cluster file; perf/gadget/ has one")
      ->required();
  schedule->add_option("JOBS", options->jobs_file, "a file of jobs")->required();
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

int run_schedule(const ScheduleOptions& options, const CLI::App& schedule) {
  if (schedule.count("--lp-seconds") > 0 && options.policy != "gadget-lp") {
    return refuse("schedule: --lp-seconds is for --policy gadget-lp");
  }
  return print_schedule(options);
}

}  // namespace

Subcommand add_schedule(CLI::App* all) {
  const auto options = std::make_shared<ScheduleOptions>();
  CLI::App* const schedule =
      all->add_subcommand("schedule", "which jobs of a cluster run, and where");
  add_files(options, schedule);
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
  return {schedule, [options, schedule](const auto&) { return run_schedule(*options, *schedule); }};
}

}  // namespace ringpress::nccl_plugin::command
