// Reads the files of a job, whatever they are called: what each of them is shows in its text.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_INPUT_FILES_H_
#define NCCL_PLUGIN_COMMAND_REPORT_INPUT_FILES_H_

#include <string>
#include <vector>

#include "nccl_plugin/command/report/job_data.h"

namespace ringpress::nccl_plugin::command::report {

/// A folder stands for the files in it, but not in folders below. A file that is named twice is
/// read once. Files of lines are read line by line, however long they are. What cannot be read is
/// told in the notes of its file; all else is in the data.
JobData read_files(const std::vector<std::string>& paths);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_INPUT_FILES_H_
