// The command line of `ringpress report`.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_REPORT_OPTIONS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_REPORT_OPTIONS_H_

#include <CLI/CLI.hpp>

#include "nccl_plugin/command/report/report.h"

namespace ringpress::nccl_plugin::command {

/// `options` must outlive `report`.
void add_report_options(CLI::App* report, ReportOptions* options);

}  // namespace ringpress::nccl_plugin::command

#endif  // NCCL_PLUGIN_COMMAND_REPORT_REPORT_OPTIONS_H_
