// What a run measured, before it is printed.
#ifndef PERF_ALL_REDUCE_RESULTS_H_
#define PERF_ALL_REDUCE_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "perf/all_reduce/options.h"

namespace ringpress::perf {

/// Times of single iterations, in microseconds per call.
struct IterationStatistics {
  double minimum = 0;
  double maximum = 0;
  double mean = 0;
  double median = 0;
  double percentile95 = 0;
  double percentile99 = 0;
  double deviation = 0;
  std::vector<double> samples;
};

/// One number per sample from those of all ranks: all[rank * samples + i].
std::vector<double> combine_ranks(const std::vector<double>& all, std::size_t samples,
                                  Average average);

/// Throws terminal::Error if there are no samples.
IterationStatistics summarize(std::vector<double> samples_us);

/// One half of a table row.
struct PlacementResult {
  double time_us = 0;
  double algorithm_bandwidth = 0;              // 1e9 bytes of the uncompressed message per second.
  double bus_bandwidth = 0;                    // The same times 2 (ranks - 1) / ranks.
  std::optional<std::int64_t> wrong_elements;  // Of all ranks; none when not checked.
  IterationStatistics iterations;
};

/// What ringpress did in the timed calls. Codec, algorithm and reason are those of the call whose
/// error is told. The bytes are those that the busiest rank sends per call,
/// without those of a calibration.
struct CompressionResult {
  std::string codec;
  std::string algorithm;
  std::string reason;  // Why nothing was compressed, or empty.
  double raw_bytes = 0;
  double wire_bytes = 0;
  std::uint64_t residual_bytes = 0;
  std::map<std::string, int> codecs;  // Of all timed calls, with how many times were of each.

  double ratio() const { return wire_bytes > 0 ? raw_bytes / wire_bytes : 1; }
};

/// What a codec's bound on the error of one element is made of, over all elements and ranks.
struct Magnitudes {
  double largest_error = 0;   // Of |result - exact|; NaN if not finite.
  double largest_exact = 0;   // Of |exact result|.
  double largest_inputs = 0;  // Each rank's largest |input|, added up.
};

/// What makes a row fail.
enum class Failure { kWrongElements, kRanksDiffer, kLargeError, kOtherCodec };

/// One size, type, operation and setting.
struct ResultRow {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string type;
  std::string operation;
  int root = -1;
  std::string setting;
  std::optional<PlacementResult> out_of_place;
  std::optional<PlacementResult> in_place;
  std::optional<CompressionResult> compression;  // None when the library is not ringpress.
  std::optional<double> relative_error;
  std::optional<Magnitudes> magnitudes;  // Of the same call as relative_error.
  std::optional<double> mean_error;      // Relative, of the mean of --mean-of calls.
  std::optional<bool> identical;
  std::set<Failure> failures;  // Empty: all is as it is to be.
};

/// Of how many rows.
struct FailedRows {
  std::int64_t all = 0;
  std::map<Failure, std::int64_t> by_failure;  // A row may have several.

  void add(const ResultRow& row);
  std::int64_t with(Failure failure) const;
  /// "2 with wrong elements, 1 where ranks differ".
  std::string describe() const;
};

/// Fills the bandwidths of `result` from its time.
void set_bandwidths(PlacementResult& result, std::size_t bytes, int ranks);

/// Mean bus bandwidth over all rows and placements, as nccl-tests has it; 0 without rows.
double average_bus_bandwidth(const std::vector<ResultRow>& rows);

}  // namespace ringpress::perf

#endif  // PERF_ALL_REDUCE_RESULTS_H_
