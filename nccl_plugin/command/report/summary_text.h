// The summary for a terminal and for programs.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_TEXT_H_
#define NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_TEXT_H_

#include <string>

#include "nccl_plugin/command/report/job_data.h"
#include "nccl_plugin/command/report/summary.h"

namespace ringpress::nccl_plugin::command::report {

/// `page_file`: where the page is; empty: there is none. Without control characters.
std::string summary_text(const JobData& data, const Summary& summary, const std::string& page_file);
std::string summary_json(const JobData& data, const Summary& summary, const std::string& page_file);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_SUMMARY_TEXT_H_
