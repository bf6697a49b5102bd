#include <memory>

#include "nccl_plugin/command/line/subcommand.h"
#include "nccl_plugin/command/report/report.h"

namespace ringpress::nccl_plugin::command {

Subcommand add_report(CLI::App* all) {
  const auto options = std::make_shared<ReportOptions>();
  CLI::App* const report =
      all->add_subcommand("report", "what a job did, from the files it has left");
  report
      ->add_option("FILE", options->paths,
                   "what a job has left: lines of RINGPRESS_STATS and live lines, "
                   "RINGPRESS_TUNING_LOG, RINGPRESS_TRACE, all_reduce_perf -J; a folder: all files "
                   "in it")
      ->required();
  CLI::Option* const page =
      report->add_option("-o,--output", options->page_file, "the page")->capture_default_str();
  report->add_flag("--json", options->json, "the summary for programs, not as text");
  report->add_flag("--text", options->text, "the summary alone, no page")->excludes(page);
  return {report, [options](const auto&) { return print_report(*options); }};
}

}  // namespace ringpress::nccl_plugin::command
