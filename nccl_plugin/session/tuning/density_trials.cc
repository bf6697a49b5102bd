// Trials of top-k.
#include <algorithm>
#include <cmath>
#include <functional>

#include "nccl_plugin/session/tuning/level_trials.h"
#include "nccl_plugin/session/tuning/repeated_steps.h"
#include "nccl_plugin/session/tuning/trial_losses.h"

namespace ringpress::nccl_plugin::tuning {
namespace {

// Top-k: calls are tried several at a time, of which no more than this share of all values is sent.
constexpr double kLargestShare = 1.0 / 24;
// Settling and counting, over the calls that it takes to send as many values as there are.
constexpr double kSettlingCycles = 2;
constexpr double kCountedCycles = 1;
constexpr std::size_t kCountedTimes = 10;

/// Magnitude of the smallest of the `chosen` largest values, of which there are more.
float threshold_of(std::span<const float> values, std::size_t chosen, std::vector<float>* memory) {
  memory->resize(values.size());
  std::transform(values.begin(), values.end(), memory->begin(),
                 [](float value) { return std::abs(value); });
  const auto last = memory->begin() + static_cast<std::ptrdiff_t>(chosen - 1);
  std::nth_element(memory->begin(), last, memory->end(), std::greater<>());
  return *last;
}

/// Top-k at one density, several calls at a time.
class DensityTrial {
 public:
  DensityTrial(const SampledPart& part, double density)
      : part_(part), steps_(part), kept_(part.size()) {
    const double share = std::max(density, std::min(kLargestShare, 1.0));
    calls_at_a_time_ = part.has_feedback() ? std::max(1.0, std::floor(share / density)) : 1;
    share_ = density * calls_at_a_time_;
  }

  LossKinds run() {
    const auto settling = static_cast<std::size_t>(std::ceil(kSettlingCycles / share_));
    const auto counted = static_cast<std::size_t>(std::ceil(kCountedCycles / share_));
    if (!part_.has_feedback()) return run_without_feedback();
    for (std::size_t i = 0; i < settling; ++i) send(false);
    for (std::size_t i = 0; i < std::max(counted, kCountedTimes); ++i) send(true);
    const double scale = static_cast<double>(part_.count()) / static_cast<double>(part_.size());
    const auto times = static_cast<double>(times_);
    return {scale * (step_squares_ + sent_squares_ / calls_at_a_time_) / times,
            scale * kept_squares_ / times, scale * kept_squares_ / times};
  }

 private:
  std::size_t chosen() {
    owed_ += share_ * static_cast<double>(kept_.size());
    const auto now = std::min(static_cast<std::size_t>(owed_), kept_.size());
    owed_ -= static_cast<double>(now);
    return now;
  }

  LossKinds run_without_feedback() {
    TrialLosses losses(part_);
    std::vector<float> sent(part_.size());
    for (std::size_t step = 0; step < steps_.period(); ++step) {
      const std::vector<float>& values = steps_.next();
      const std::size_t number = std::max<std::size_t>(1, chosen());
      const float threshold = threshold_of(values, number, &magnitudes_);
      for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] = std::abs(values[i]) >= threshold ? values[i] : 0;
      }
      losses.add_call(values, sent);
    }
    return losses.get();
  }

  void send(bool counts) {
    // The last call is one of the steps: of it, it is known what it is wrong by.
    const auto before = static_cast<std::size_t>(calls_at_a_time_) - 1;
    steps_.add_periods(before / steps_.period(), &kept_);
    for (std::size_t i = 0; i < before % steps_.period(); ++i) add(steps_.next());
    const std::vector<float>& last = steps_.next();
    add(last);
    if (const std::size_t number = chosen(); number > 0) {
      const float threshold = threshold_of(kept_, number, &magnitudes_);
      for (std::size_t i = 0; i < kept_.size(); ++i) {
        if (std::abs(kept_[i]) < threshold) continue;
        const double sent = kept_[i];
        if (counts) sent_squares_ += sent * (sent - 2 * double{last[i]});
        kept_[i] = 0;
      }
    }
    if (!counts) return;
    step_squares_ += squares_of(last);
    kept_squares_ += squares_of(kept_);
    ++times_;
  }
  void add(std::span<const float> values) {
    for (std::size_t i = 0; i < kept_.size(); ++i) kept_[i] += values[i];
  }

  const SampledPart& part_;
  RepeatedSteps steps_;
  double calls_at_a_time_ = 1;
  double share_ = 1;  // Of the values, that are sent each time.
  double owed_ = 0;
  std::vector<float> kept_;
  std::vector<float> magnitudes_;
  double step_squares_ = 0;
  double sent_squares_ = 0;
  double kept_squares_ = 0;
  std::size_t times_ = 0;
};

}  // namespace

std::vector<LossKinds> try_densities(const SampledPart& part, std::span<const double> densities,
                                     const RanksSum& sum) {
  const std::vector<float> mean = part.mean();
  const double of_mean = squares_of(mean) * static_cast<double>(part.steps().size());
  double of_values = 0;
  for (const std::vector<float>& values : part.steps()) of_values += squares_of(values);
  const double of_rest = std::max(0.0, of_values - of_mean);
  const double all = of_mean + of_rest;
  const double larger = all > 0 ? (of_mean * sum.of_mean + of_rest * sum.of_rest) / all : 1;
  std::vector<LossKinds> losses;
  for (const double density : densities) {
    const LossKinds loss = DensityTrial(part, density).run();
    losses.push_back({larger * loss[kLossOfCall], sum.of_mean * loss[kLossOfMean],
                      sum.of_mean * loss[kLossOfLaterMean]});
  }
  return losses;
}

}  // namespace ringpress::nccl_plugin::tuning
