// Random jobs of all kinds that a cluster may see, the same on every machine for the same seed.
#ifndef PERF_ESPRESSO_WIDE_JOB_H_
#define PERF_ESPRESSO_WIDE_JOB_H_

#include <algorithm>
#include <string>
#include <vector>

#include "perf/espresso/random_job.h"

namespace ringpress::perf {

/// Draws jobs that have little in common. Sizes, rates and times are log-uniform over all of their
/// ranges; what makes ties and corners (equal tensors, times of 0, a codec that costs nothing, one
/// machine, one GPU) is drawn on purpose.
class WideJob {
 public:
  explicit WideJob(std::uint64_t seed) : random_(seed * 0x9E3779B97F4A7C15U + 1) {
    job_.name = "wide " + std::to_string(seed);
  }

  espresso::Job of(std::size_t tensors) {
    draw_cluster();
    draw_compressor();
    if (one_in(2)) job_.forward_seconds = random_.log_uniform(1e-4, 0.1);
    draw_tensors(tensors);
    return job_;
  }

 private:
  bool one_in(double many) { return random_.uniform(0, many) < 1; }
  std::size_t whole(std::size_t low, std::size_t high) {
    const auto least = static_cast<double>(low), most = static_cast<double>(high);
    return std::min(high, static_cast<std::size_t>(random_.uniform(least, most + 1)));
  }
  /// In Gb/s, as networks are sold.
  double rate(double low, double high) { return random_.log_uniform(low, high) * 1e9 / 8; }

  void draw_cluster() {
    espresso::Cluster& cluster = job_.cluster;
    cluster.gpus_per_machine = whole(1, 8);
    const bool has_few = one_in(4);
    cluster.machines = has_few ? whole(2, 3) : static_cast<std::size_t>(random_.log_uniform(2, 65));
    if (one_in(20)) cluster.machines = 1;
    cluster.between = {one_in(8) ? 0 : random_.log_uniform(1e-6, 200e-6), rate(1, 400)};
    cluster.inside = {one_in(8) ? 0 : random_.log_uniform(1e-6, 20e-6), rate(20, 7200)};
  }

  espresso::CodecCost cost(double slowest, double fastest) {
    const double start = one_in(6) ? 0 : random_.log_uniform(1e-6, 500e-6);
    return {start, one_in(20) ? 0 : 1 / random_.log_uniform(slowest, fastest)};
  }

  void draw_compressor() {
    espresso::Compressor& compressor = job_.compressor;
    compressor.ratio = one_in(12) ? 1 : random_.log_uniform(1e-3, 1);
    if (one_in(25)) return;  // A codec that costs nothing.
    compressor.gpu = {cost(2e9, 2e12), cost(2e9, 2e12)};
    if (one_in(3)) return;
    compressor.cpu = {{cost(1e8, 5e10), cost(1e8, 5e10)}};
  }

  void draw_tensors(std::size_t count) {
    const double smallest = random_.log_uniform(1e3, 1e8);
    const double largest = one_in(3) ? 2e9 : random_.log_uniform(smallest, 2e9);
    const std::size_t sizes = one_in(2) ? count : whole(1, count);
    std::vector<std::size_t> bytes;
    for (std::size_t i = 0; i < sizes; ++i) {
      bytes.push_back(4 * static_cast<std::size_t>(random_.log_uniform(smallest, largest) / 4));
    }
    // From far less to far more than the wire takes.
    const double longest = random_.log_uniform(1e-6, 1);
    const double share = one_in(2) ? 1 : random_.log_uniform(1e-3, 1);
    const double same = random_.log_uniform(longest * share, longest);
    const bool is_even = one_in(5);
    for (std::size_t i = 0; i < count; ++i) {
      double seconds = one_in(2) ? random_.uniform(0, longest)
                                 : random_.log_uniform(longest * share * 0.999, longest);
      if (is_even) seconds = same;
      if (one_in(20)) seconds = 0;
      job_.tensors.push_back(
          {"t" + std::to_string(i), bytes[sizes == count ? i : whole(0, sizes - 1)], seconds});
    }
  }

  RandomNumbers random_;
  espresso::Job job_;
};

inline espresso::Job wide_job(std::uint64_t seed, std::size_t tensors) {
  return WideJob(seed).of(tensors);
}

}  // namespace ringpress::perf

#endif  // PERF_ESPRESSO_WIDE_JOB_H_
