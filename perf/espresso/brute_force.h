// The best plan of all, by trying every one of them.
#ifndef PERF_ESPRESSO_BRUTE_FORCE_H_
#define PERF_ESPRESSO_BRUTE_FORCE_H_

#include <algorithm>
#include <cstddef>
#include <vector>

#include "tuner/espresso/simulation.h"

namespace ringpress::perf {

/// Simulates every combination of the chains that each tensor may take.
class BruteForce {
 public:
  BruteForce(const espresso::Job& job, std::vector<std::vector<espresso::Chain>> chains)
      : chains_(std::move(chains)), simulation_(compute(job), job.forward_seconds) {}

  /// The seconds of the shortest step.
  double run() {
    std::vector<const espresso::Chain*> first;
    for (const auto& own : chains_) first.push_back(&own[0]);
    best_ = simulation_.set(std::move(first));
    visit(0);
    return best_;
  }

 private:
  static std::vector<double> compute(const espresso::Job& job) {
    std::vector<double> seconds;
    for (const espresso::Tensor& tensor : job.tensors) seconds.push_back(tensor.backward_seconds);
    return seconds;
  }

  void visit(std::size_t tensor) {
    for (const espresso::Chain& chain : chains_[tensor]) {
      simulation_.set(tensor, &chain);
      if (tensor + 1 < chains_.size()) {
        visit(tensor + 1);
      } else {
        best_ = std::min(best_, simulation_.seconds());
      }
    }
  }

  std::vector<std::vector<espresso::Chain>> chains_;
  espresso::Simulation simulation_;
  double best_ = 0;
};

/// Every option for every tensor, on the GPU and, if it compresses, on the CPU.
inline double best_of_all(const espresso::Job& job, const std::vector<espresso::Option>& options) {
  std::vector<std::vector<espresso::Chain>> chains;
  for (const espresso::Tensor& tensor : job.tensors) {
    auto& own = chains.emplace_back();
    for (const espresso::Option& option : options) {
      own.push_back(espresso::price(option, espresso::Device::kGpu, tensor, job));
      if (!job.compressor.cpu || !option.compresses()) continue;
      own.push_back(espresso::price(option, espresso::Device::kCpu, tensor, job));
    }
  }
  return BruteForce(job, std::move(chains)).run();
}

}  // namespace ringpress::perf

#endif  // PERF_ESPRESSO_BRUTE_FORCE_H_
