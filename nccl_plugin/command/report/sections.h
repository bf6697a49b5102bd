// The parts of the page, as HTML. Each begins with its heading, and says what is missing where its
// data are not there.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_SECTIONS_H_
#define NCCL_PLUGIN_COMMAND_REPORT_SECTIONS_H_

#include <string>

#include "nccl_plugin/command/report/job_data.h"
#include "nccl_plugin/command/report/summary.h"

namespace ringpress::nccl_plugin::command::report {

/// `id` is the anchor, `title` text, `inside` HTML.
std::string section(const char* id, const char* title, const std::string& inside);

std::string changes_section(const Summary& summary);
std::string compressed_section(const Summary& summary);
std::string bytes_section(const JobData& data, const Summary& summary);
std::string time_section(const JobData& data, const Summary& summary);
std::string errors_section(const JobData& data, const Summary& summary);
std::string tuning_section(const JobData& data);
std::string steps_section(const JobData& data);
/// Of all_reduce_perf -J and of trainings; empty where no file has any.
std::string benchmarks_section(const JobData& data);
std::string fidelity_section(const JobData& data);
std::string files_section(const JobData& data, const Summary& summary);

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_SECTIONS_H_
