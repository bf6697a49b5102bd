#include <fmt/core.h>

#include <cstdlib>
#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/plan/plan.h"
#include "nccl_plugin/command/plan/templates.h"

namespace ringpress::nccl_plugin::command {
namespace {

struct PlanWords {
  PlanOptions options;
  bool wants_template = false;
};

/// What makes a job without a file.
void add_preset(PresetOptions* preset, CLI::App* plan) {
  CLI::Option* const named = plan->add_option(
      "--preset", preset->preset, "a job of a published model, such as gpt2, resnet50 or llama-7b");
  plan->add_option("--step-ms", preset->step_ms, "of --preset: of a step without communication")
      ->needs(named);
  plan->add_option("--dtype", preset->dtype,
                   "of --preset: of gradients, fp32, bf16 or fp16; default: bf16, without a GPU "
                   "fp32")
      ->needs(named);
  plan->add_option("--gpus", preset->gpus, "of --preset: ranks, all of them")
      ->needs(named)
      ->capture_default_str();
  plan->add_option("--per-host", preset->per_host, "of --preset: ranks of a host")
      ->needs(named)
      ->capture_default_str();
  plan->add_option("--net", preset->net, "of --preset: of a host, such as 100gbit")
      ->needs(named)
      ->capture_default_str();
  plan->add_option("--gpu", preset->gpu, "of --preset: such as h100; none: on host memory")
      ->needs(named)
      ->capture_default_str();
}

int run_plan(const PlanWords& words) {
  const PlanOptions& options = words.options;
  if (words.wants_template) {
    fmt::print("{}", kJobTemplate);
    return EXIT_SUCCESS;
  }
  const bool has_preset = !options.preset.preset.empty();
  if (options.job_file.empty() == !has_preset) {
    return refuse("plan: needs a JOB file or --preset, one of them; --template prints a job file");
  }
  return refuse_errors("plan", [&options] { return print_plan(options); });
}

}  // namespace

Subcommand add_plan(CLI::App* all) {
  const auto words = std::make_shared<PlanWords>();
  PlanOptions* const options = &words->options;
  CLI::App* const plan =
      all->add_subcommand("plan", "what to compress in a training step, predicted");
  plan->add_option("JOB", options->job_file, "a job file; perf/jobs/ has some");
  add_preset(&options->preset, plan);
  plan->add_flag("--template", words->wants_template, "print a job file to begin with");
  plan->add_option("--rules", options->rules_file,
                   "write the plan into this file, for RINGPRESS_RULES");
  plan->add_option("--svg", options->svg_file, "draw the step into this file");
  plan->add_option("--options", options->options, "what this library runs, or all of the paper")
      ->check(CLI::IsMember({"engine", "tree"}));
  plan->add_option("--search", options->search, "the paper's, or one that ends nearer the best")
      ->check(CLI::IsMember({"repeated", "paper"}));
  plan->add_option("--codec", options->codec,
                   "for a job without compressor, and of --preset; default: q4");
  plan->add_flag("--json", options->json, "for programs");
  plan->add_flag("--summary", options->summary, "no line for each tensor");
  return {plan, [words](const auto&) { return run_plan(*words); }};
}

}  // namespace ringpress::nccl_plugin::command
