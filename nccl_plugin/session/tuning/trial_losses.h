// What the calls of a trial (level_trials.h) are wrong by.
#ifndef NCCL_PLUGIN_SESSION_TUNING_TRIAL_LOSSES_H_
#define NCCL_PLUGIN_SESSION_TUNING_TRIAL_LOSSES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "nccl_plugin/session/tuning/level_trials.h"

namespace ringpress::nccl_plugin::tuning {

/// Adds up what calls are wrong by.
class TrialLosses {
 public:
  explicit TrialLosses(const SampledPart& part) : part_(part) {}

  void add_call(std::span<const float> values, std::span<const float> sent);
  void add_kept(double squares, bool is_late) { kept_[is_late ? 1 : 0].add(squares); }
  /// Squares, of the whole part.
  LossKinds get() const;

 private:
  struct Mean {
    double sum = 0;
    std::size_t times = 0;
    void add(double value) {
      sum += value;
      ++times;
    }
    double mean() const { return sum / static_cast<double>(times); }
  };

  const SampledPart& part_;
  double of_calls_ = 0;
  std::size_t calls_ = 0;
  Mean kept_[2];            // Now and later.
  std::vector<float> sum_;  // Of what was lost, where nothing is kept.
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_TRIAL_LOSSES_H_
