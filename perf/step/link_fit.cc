#include "perf/step/link_fit.h"

#include <algorithm>

namespace ringpress::perf {
namespace {

constexpr double kLeastMoving = 0.1;

double quickest(const SizeTimes& size) {
  return *std::min_element(size.round_seconds.begin(), size.round_seconds.end());
}

/// Least squares of errors as parts of what was measured.
struct WeightedSums {
  double one = 0, x = 0, y = 0, xx = 0, xy = 0;

  void add(double bytes, double seconds) {
    const double weight = 1 / (seconds * seconds);
    one += weight;
    x += weight * bytes;
    y += weight * seconds;
    xx += weight * bytes * bytes;
    xy += weight * bytes * seconds;
  }
  double seconds_at_none() const { return (y * xx - xy * x) / (one * xx - x * x); }
  /// Of the best line that takes so long at none.
  double seconds_per_byte_from(double start) const { return (xy - start * x) / xx; }
};

}  // namespace

LinkSpeed fit_link(const std::vector<SizeTimes>& sizes, double latencies_of_a_call) {
  WeightedSums sums;
  for (const SizeTimes& size : sizes) sums.add(size.sent_bytes, quickest(size));
  // Of what the largest calls take, some is for their bytes.
  const double longest = quickest(sizes.back());
  const double start = std::clamp(sums.seconds_at_none(), 0.0, (1 - kLeastMoving) * longest);
  const double per_byte =
      std::max(sums.seconds_per_byte_from(start), kLeastMoving * longest / sizes.back().sent_bytes);
  return {start / latencies_of_a_call, 1 / per_byte};
}

}  // namespace ringpress::perf
