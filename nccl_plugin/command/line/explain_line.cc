#include <memory>

#include "nccl_plugin/command/explain/explain.h"
#include "nccl_plugin/command/line/subcommand.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_explain(CLI::App* all) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* const explained = all->add_subcommand("explain", "what a call would take, predicted");
  explained
      ->add_option("SIZE", options->size, "bytes of the tensor, such as 64M; all: a table of sizes")
      ->required();
  explained->add_option("DTYPE", options->dtype, "float32, float16 or bfloat16")->required();
  explained->add_option("NRANKS", options->ranks, "ranks")->required();
  explained
      ->add_option("--collective", options->collective, "all_reduce, reduce_scatter or all_gather")
      ->capture_default_str();
  explained->add_option("--rate", options->rate, "of a host's link, such as 1gbit")
      ->capture_default_str();
  explained->add_option("--latency", options->latency, "of a link, such as 50us")
      ->capture_default_str();
  explained->add_option("--ranks-per-host", options->ranks_per_host, "that share its link")
      ->capture_default_str();
  explained->add_option("--inside-rate", options->inside_rate, "of each rank within its host")
      ->capture_default_str();
  explained->add_option("--inside-latency", options->inside_latency, "within a host")
      ->capture_default_str();
  explained->add_option("--codecs", options->codecs,
                        "that are compared; default: what automatic mode chooses from");
  explained->add_option("--budget", options->budget,
                        "the codec whose error is not to be exceeded; default: RINGPRESS_BUDGET");
  explained->add_flag("--json", options->json, "for programs");
  explained->add_flag("--csv", options->csv,
                      "of all sizes; the columns of NCCL's tuner files first");
  return {explained, [options](const auto&) {
            return refuse_errors("explain", [&options] { return explain(*options); });
          }};
}

}  // namespace ringpress::nccl_plugin::command
