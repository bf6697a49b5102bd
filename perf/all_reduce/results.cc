#include "perf/all_reduce/results.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "nccl_plugin/command/terminal/error.h"

namespace ringpress::perf {
namespace {

/// The smallest sample that `percent` of all samples do not exceed.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::min(std::max<std::size_t>(rank, 1), sorted.size()) - 1];
}

double median_of(const std::vector<double>& sorted) {
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 != 0 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const char* text_of(Failure failure) {
  switch (failure) {
    case Failure::kWrongElements:
      return "with wrong elements";
    case Failure::kRanksDiffer:
      return "where ranks differ";
    case Failure::kLargeError:
      return "with an error above --max-relerr";
    case Failure::kOtherCodec:
      return "by another codec or algorithm than --require-codec lets pass";
  }
  return "";
}

}  // namespace

void FailedRows::add(const ResultRow& row) {
  if (!row.failures.empty()) ++all;
  for (const Failure failure : row.failures) ++by_failure[failure];
}

std::int64_t FailedRows::with(Failure failure) const {
  const auto found = by_failure.find(failure);
  return found == by_failure.end() ? 0 : found->second;
}

std::string FailedRows::describe() const {
  std::string text;
  for (const auto& [failure, count] : by_failure) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + text_of(failure);
  }
  return text;
}

std::vector<double> combine_ranks(const std::vector<double>& all, std::size_t samples,
                                  Average average) {
  std::vector<double> combined(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(samples));
  const std::size_t ranks = all.size() / samples;
  for (std::size_t i = 0; i < samples; ++i) {
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      const double other = all[rank * samples + i];
      switch (average) {
        case Average::kRankZero:
          break;
        case Average::kMean:
          combined[i] += other;
          break;
        case Average::kMinimum:
          combined[i] = std::min(combined[i], other);
          break;
        case Average::kMaximum:
          combined[i] = std::max(combined[i], other);
          break;
      }
    }
    if (average == Average::kMean) combined[i] /= static_cast<double>(ranks);
  }
  return combined;
}

IterationStatistics summarize(std::vector<double> samples_us) {
  if (samples_us.empty()) throw terminal::Error("no iteration was timed");
  std::vector<double> sorted = samples_us;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  IterationStatistics statistics;
  statistics.minimum = sorted.front();
  statistics.maximum = sorted.back();
  statistics.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  statistics.median = median_of(sorted);
  statistics.percentile95 = percentile(sorted, 95);
  statistics.percentile99 = percentile(sorted, 99);
  double squares = 0;
  for (const double sample : sorted) {
    squares += (sample - statistics.mean) * (sample - statistics.mean);
  }
  statistics.deviation = std::sqrt(squares / count);
  statistics.samples = std::move(samples_us);
  return statistics;
}

void set_bandwidths(PlacementResult& result, std::size_t bytes, int ranks) {
  const double seconds = result.time_us * 1e-6;
  result.algorithm_bandwidth = seconds > 0 ? static_cast<double>(bytes) / 1e9 / seconds : 0;
  result.bus_bandwidth = result.algorithm_bandwidth * 2 * (ranks - 1) / ranks;
}

double average_bus_bandwidth(const std::vector<ResultRow>& rows) {
  double sum = 0;
  int placements = 0;
  for (const ResultRow& row : rows) {
    for (const auto* placement : {&row.out_of_place, &row.in_place}) {
      if (!placement->has_value()) continue;
      sum += (*placement)->bus_bandwidth;
      ++placements;
    }
  }
  return placements == 0 ? 0 : sum / placements;
}

}  // namespace ringpress::perf
