// Random jobs for Espresso's planner, the same on every machine for the same seed.
#ifndef PERF_ESPRESSO_RANDOM_JOB_H_
#define PERF_ESPRESSO_RANDOM_JOB_H_

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>

#include "ringpress/internal/espresso.h"

namespace ringpress::perf {

class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : generator_(seed) {}

  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(generator_() >> 11) * 0x1p-53;
  }
  double log_uniform(double low, double high) {
    return std::exp(uniform(std::log(low), std::log(high)));
  }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[generator_() % values.size()];
  }

 private:
  std::mt19937_64 generator_;
};

/// 2, 4 or 8 machines of 4 or 8 GPUs, NVLink and 100 Gb/s or PCIe and 25 Gb/s; a sparse code of 1
/// %, one of 1 bit or one of 8; tensors of 16 KB to 256 MB, `sizes` different ones at most.
inline espresso::Job random_job(std::uint64_t seed, std::size_t tensors, std::size_t sizes) {
  RandomNumbers random(seed);
  espresso::Job job;
  job.name = "random " + std::to_string(seed);
  job.cluster.machines = random.one_of<std::size_t>({2, 4, 8});
  job.cluster.gpus_per_machine = random.one_of<std::size_t>({4, 8});
  const bool is_fast = random.one_of({true, false});
  job.cluster.inside = {5e-6, is_fast ? 120e9 : 11e9};
  job.cluster.between = {15e-6, is_fast ? 11e9 : 2.8e9};
  job.compressor.ratio = random.one_of({0.02, 1.0 / 32, 0.25});
  const double gpu_start = random.uniform(10e-6, 80e-6);
  const double gpu_rate = random.log_uniform(20e9, 400e9);
  job.compressor.gpu = {{gpu_start, 1 / gpu_rate}, {gpu_start / 2, 0.5 / gpu_rate}};
  const double cpu_rate = random.log_uniform(1e9, 12e9);
  job.compressor.cpu = {{{20e-6, 1 / cpu_rate}, {20e-6, 0.5 / cpu_rate}}};
  std::vector<std::size_t> bytes;
  for (std::size_t i = 0; i < sizes; ++i) {
    bytes.push_back(4 * static_cast<std::size_t>(random.log_uniform(4e3, 64e6)));
  }
  const double longest = random.log_uniform(0.5e-3, 50e-3);
  for (std::size_t i = 0; i < tensors; ++i) {
    const auto size = static_cast<std::size_t>(random.uniform(0, static_cast<double>(sizes)));
    job.tensors.push_back(
        {"t" + std::to_string(i), bytes[i < sizes ? i : size], random.uniform(0, longest)});
  }
  return job;
}

}  // namespace ringpress::perf

#endif  // PERF_ESPRESSO_RANDOM_JOB_H_
