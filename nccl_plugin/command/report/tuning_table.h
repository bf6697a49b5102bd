// RINGPRESS_TUNING_LOG.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_TUNING_TABLE_H_
#define NCCL_PLUGIN_COMMAND_REPORT_TUNING_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

#include "nccl_plugin/command/report/job_data.h"

namespace ringpress::nccl_plugin::command::report {

/// Whether a file that begins with this line is one.
bool is_tuning_header(std::string_view line);

class TuningTable {
 public:
  explicit TuningTable(std::string_view header);

  /// Empty, or what is wrong with the line, which is then left out. Lines after the first 20000 are
  /// only counted.
  std::string add(const std::string& line, const std::string& file, JobData* data) const;

 private:
  std::vector<std::string> columns_;
};

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_TUNING_TABLE_H_
