// The report's page.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_PAGE_H_
#define NCCL_PLUGIN_COMMAND_REPORT_PAGE_H_

#include <string>

#include "nccl_plugin/command/report/job_data.h"
#include "nccl_plugin/command/report/summary.h"

namespace ringpress::nccl_plugin::command::report {

/// One HTML file, 500 kB at most, that loads nothing and needs no script.
std::string page_of(const JobData& data, const Summary& summary);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_PAGE_H_
