// The steps of a sample again and again, as trials of many calls need them.
#ifndef NCCL_PLUGIN_SESSION_TUNING_REPEATED_STEPS_H_
#define NCCL_PLUGIN_SESSION_TUNING_REPEATED_STEPS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nccl_plugin/session/tuning/sampled_part.h"

namespace ringpress::nccl_plugin::tuning {

/// With signs at random of what values have beside their mean, in each repetition its own.
class RepeatedSteps {
 public:
  explicit RepeatedSteps(const SampledPart& part)
      : part_(part), mean_(part.mean()), step_(part.size()) {
    rest_.assign(part.size(), 0);
    for (const std::vector<float>& values : part.steps()) {
      for (std::size_t i = 0; i < rest_.size(); ++i) rest_[i] += values[i] - mean_[i];
    }
  }

  std::size_t period() const { return part_.steps().size(); }
  /// The next step's values.
  const std::vector<float>& next() {
    const std::vector<float>& values = part_.steps()[at_ % period()];
    if (at_ < period() || !part_.has_feedback()) {
      step_ = values;
    } else {
      const std::uint64_t repetition = at_ / period();
      for_each_sign(repetition, step_.size(), [&](std::size_t i, float sign) {
        step_[i] = mean_[i] + sign * (values[i] - mean_[i]);
      });
    }
    ++at_;
    return step_;
  }
  /// What the sum of so many whole periods, of which next() gives none, has beside the mean.
  std::vector<float> skip(std::size_t periods) {
    std::vector<float> deviations(step_.size());
    const float of_rest = std::sqrt(static_cast<float>(periods));
    for_each_sign(~skipped_++, step_.size(),
                  [&](std::size_t i, float sign) { deviations[i] = sign * of_rest * rest_[i]; });
    return deviations;
  }
  /// values += so many whole periods.
  void add_periods(std::size_t periods, std::vector<float>* values) {
    if (periods == 0) return;
    const auto of_mean = static_cast<float>(periods * period());
    const std::vector<float> deviations = skip(periods);
    for (std::size_t i = 0; i < values->size(); ++i) {
      (*values)[i] += of_mean * mean_[i] + deviations[i];
    }
  }

 private:
  const SampledPart& part_;
  const std::vector<float> mean_;
  std::vector<float> rest_;  // The sum of all deviations.
  std::vector<float> step_;
  std::size_t at_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace ringpress::nccl_plugin::tuning

#endif  // NCCL_PLUGIN_SESSION_TUNING_REPEATED_STEPS_H_
