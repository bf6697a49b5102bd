// ringpress report: what a job did, from the files that it has left, as a page and as text.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_REPORT_H_
#define NCCL_PLUGIN_COMMAND_REPORT_REPORT_H_

#include <string>
#include <vector>

#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::command {

struct ReportOptions {
  std::vector<std::string> paths;  // Files, and folders of files.
  std::string page_file = "ringpress-report.html";
  bool json = false;  // The summary for programs on standard output, in place of the text.
  bool text = false;  // No page.
};

/// Writes the page to `options.page_file`, and prints the summary to standard output. What cannot
/// be read is told there. An error: nothing could be read, or the page could not be written.
Status write_report(const ReportOptions& options);

/// The same, with errors on standard error. Returns the exit status.
int print_report(const ReportOptions& options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_REPORT_REPORT_H_
