// The text that all_reduce_perf prints: nccl-tests' lines, then this project's columns.
#ifndef PERF_ALL_REDUCE_TABLE_H_
#define PERF_ALL_REDUCE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "perf/all_reduce/options.h"
#include "perf/all_reduce/results.h"

namespace ringpress::perf {

struct RankDescription {
  int rank = 0;
  int process = 0;
  std::string host;
  int device = 0;
  std::string position;
  std::string model;
};

/// Lines before the first row, with line ends.
std::string format_preamble(const Options& options, int library_version,
                            const std::vector<RankDescription>& ranks);
/// One row, without a line end.
std::string format_row(const ResultRow& row);
/// Lines after the last row. `failed`: of all cycles.
std::string format_summary(const std::vector<ResultRow>& rows, const FailedRows& failed,
                           bool bandwidth_ok);

/// A number in at most `width` characters where possible: fewer decimals, then an exponent.
std::string fit_number(double value, int width);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_TABLE_H_
