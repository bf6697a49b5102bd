#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/plan/plan.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_plan(CLI::App* all) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const plan =
      all->add_subcommand("plan", "what to compress in a training step, predicted");
  plan->add_option("JOB", options->job_file, "a job file; perf/jobs/ has some")->required();
  plan->add_option("--svg", options->svg_file, "draw the step into this file");
  plan->add_option("--options", options->options, "what this library runs, or all of the paper")
      ->check(CLI::IsMember({"engine", "tree"}));
  plan->add_option("--search", options->search, "the paper's, or one that ends nearer the best")
      ->check(CLI::IsMember({"repeated", "paper"}));
  plan->add_option("--codec", options->codec,
                   "for a job without compressor: measured here; default: q4");
  plan->add_flag("--json", options->json, "for programs");
  plan->add_flag("--summary", options->summary, "no line for each tensor");
  return {plan, [options](const auto&) { return print_plan(*options); }};
}

}  // namespace ringpress::nccl_plugin::command
