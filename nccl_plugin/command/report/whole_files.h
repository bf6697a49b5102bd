// Files that are one JSON value: job files of RINGPRESS_TRACE, results of all_reduce_perf -J and of
// perf/fidelity/.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_WHOLE_FILES_H_
#define NCCL_PLUGIN_COMMAND_REPORT_WHOLE_FILES_H_

#include <string>

#include "nccl_plugin/command/report/job_data.h"

namespace ringpress::nccl_plugin::command::report {

/// `note` has the path and gets the kind and rows. Empty, or why nothing of it is in the data.
std::string add_whole_file(const std::string& text, JobData* data, FileNote* note);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_WHOLE_FILES_H_
