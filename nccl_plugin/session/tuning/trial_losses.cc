#include "nccl_plugin/session/tuning/trial_losses.h"

#include <algorithm>

namespace ringpress::nccl_plugin::tuning {

void TrialLosses::add_call(std::span<const float> values, std::span<const float> sent) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double lost = double{values[i]} - double{sent[i]};
    of_calls_ += lost * lost;
  }
  ++calls_;
  if (part_.has_feedback()) return;
  sum_.resize(values.size());
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += values[i] - sent[i];
}

LossKinds TrialLosses::get() const {
  const double scale = static_cast<double>(part_.count()) / static_cast<double>(part_.size());
  const auto calls = static_cast<double>(calls_);
  const double of_call = of_calls_ / calls;
  if (part_.has_feedback()) {
    return {scale * of_call, scale * kept_[0].mean(), scale * kept_[1].mean()};
  }
  // The mean of these calls has more of chance than that of many: without, what is always there.
  // Less than a call's loss over the square of the steps cannot be told from chance.
  const double of_these = squares_of(sum_) / (calls * calls);
  const auto different = static_cast<double>(part_.steps().size());
  const double always =
      different > 1 ? std::max(0.0, (different * of_these - of_call) / (different - 1)) : of_these;
  const double of_mean = scale * (always + of_call / (different * different));
  return {scale * of_call, of_mean, of_mean};
}

}  // namespace ringpress::nccl_plugin::tuning
