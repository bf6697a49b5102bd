#include <memory>

#include "nccl_plugin/command/estimate/estimate.h"
#include "nccl_plugin/command/line/subcommand.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_estimate(CLI::App* all) {
  const auto options = std::make_shared<EstimateOptions>();
  CLI::App* const estimate =
      all->add_subcommand("estimate", "whether compression is worth it for a training, predicted");
  estimate->add_option("--params", options->params, "of the model, such as 1.3B or 350M")
      ->required();
  estimate->add_option("--dtype", options->dtype, "of gradients: fp32, bf16 or fp16")
      ->capture_default_str();
  estimate->add_option("--gpus", options->gpus, "ranks, all of them")->required();
  estimate->add_option("--per-host", options->per_host,
                       "ranks of a host; default: 8 where that divides them, else all");
  estimate->add_option("--net", options->net, "of a host, such as 100gbit, 25G or 10gbe")
      ->required();
  estimate->add_option("--latency", options->latency, "between hosts")->capture_default_str();
  estimate->add_option("--inside", options->inside,
                       "of each rank within its host, such as 256gbit; default: as the GPU's links "
                       "are published");
  estimate->add_option("--step-ms", options->step_ms, "of a step without communication")
      ->required();
  estimate->add_flag("--measured-step", options->is_measured_step,
                     "--step-ms is of a step with communication, without compression");
  estimate->add_option("--gpu", options->gpu, "such as h100; none: ranks work on host memory")
      ->capture_default_str();
  estimate->add_option("--cores", options->cores, "of a host, for --gpu none")
      ->capture_default_str();
  estimate->add_option("--bucket", options->bucket, "bytes of an all-reduce, as DDP cuts gradients")
      ->capture_default_str();
  estimate->add_option("--codecs", options->codecs, "that are compared")->capture_default_str();
  estimate->add_option("--doors", options->doors, "A, B or both; default: all that there are");
  estimate->add_flag("--json", options->json, "for programs");
  return {estimate, [options](const auto&) {
            return refuse_errors("estimate", [&options] { return print_estimate(*options); });
          }};
}

}  // namespace ringpress::nccl_plugin::command
