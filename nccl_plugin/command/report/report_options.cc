#include "nccl_plugin/command/report/report_options.h"

namespace ringpress::nccl_plugin::command {

void add_report_options(CLI::App* report, ReportOptions* options) {
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
}

}  // namespace ringpress::nccl_plugin::command
