// Lines of RINGPRESS_STATS and live lines.
#ifndef NCCL_PLUGIN_COMMAND_REPORT_RANK_LINES_H_
#define NCCL_PLUGIN_COMMAND_REPORT_RANK_LINES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "nccl_plugin/command/report/job_data.h"
#include "nccl_plugin/command/report/json_values.h"

namespace ringpress::nccl_plugin::command::report {

/// Of JSON objects.
bool is_statistics_line(const Json& line);
bool is_live_line(const Json& line);

/// Adds what lines say to the data of a job. `data` must outlive it.
class RankLines {
 public:
  explicit RankLines(JobData* data) : data_(data) {}

  /// Empty, or what is wrong with the line, which is then left out.
  std::string add_statistics(const Json& line);
  std::string add_live(const Json& line);

  /// A communicator that has both a line of RINGPRESS_STATS and live lines is one record from here
  /// on. After all lines.
  void join();

 private:
  using Name = std::tuple<std::string, std::uint64_t, std::string, int, int>;

  RankRecord& live_record(const Json& line, const CallTotals& total);

  JobData* data_;
  std::map<Name, std::size_t> live_records_;  // The newest of that name.
};

}  // namespace ringpress::nccl_plugin::command::report

#endif  // NCCL_PLUGIN_COMMAND_REPORT_RANK_LINES_H_
