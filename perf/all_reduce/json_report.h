// The JSON file of -J: the keys of nccl-tests' version 3, and "ringpress" with each result.
#ifndef PERF_ALL_REDUCE_JSON_REPORT_H_
#define PERF_ALL_REDUCE_JSON_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "perf/all_reduce/options.h"
#include "perf/all_reduce/results.h"
#include "perf/all_reduce/table.h"

namespace ringpress::perf {

/// What a report holds besides the rows.
struct RunDescription {
  std::vector<std::string> arguments;
  int library_version = 0;
  std::string start_time;
  std::string end_time;
  std::vector<RankDescription> ranks;
  bool bandwidth_ok = true;  // Of all cycles,
  FailedRows failed;         // as this; the rows of a report are the last one's.
};

/// The whole document. Of the environment only variables that steer collectives are in it, and no
/// secret.
std::string format_json(const Options& options, const RunDescription& run,
                        const std::vector<ResultRow>& rows);

/// Throws terminal::Error if write_text_file() would: known before hours of measuring.
void check_writable(const std::string& path);

/// Throws terminal::Error if the file cannot be written.
void write_text_file(const std::string& path, const std::string& text);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_JSON_REPORT_H_
