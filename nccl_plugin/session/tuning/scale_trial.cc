#include "nccl_plugin/session/tuning/scale_trial.h"

#include <algorithm>
#include <cstddef>

namespace ringpress::nccl_plugin::tuning {
namespace {

constexpr double kScalesHardlyLonger = 1.1;
constexpr double kScalesMuchLonger = 1.3;
constexpr int kMostScaleRounds = 3;
constexpr std::size_t kFewestScaleTimes = 5;
constexpr std::size_t kMostScaleTimes = 1024;

double median_of(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

bool ScaleTrial::next(const Choice& settled) {
  if (settled_ != settled) {
    *this = {};
    settled_ = settled;
    return false;
  }
  switch (phase_) {
    case Phase::kWithout:
      if (without_.size() < kFewestScaleTimes) return false;
      phase_ = Phase::kWarmUp;
      return true;
    case Phase::kWarmUp:
      phase_ = Phase::kWith;
      return true;
    case Phase::kWith:
      return with_.size() < kFewestScaleTimes || judge();
    case Phase::kDecided:
      break;
  }
  return has_scales_;
}

bool ScaleTrial::has(const Choice& choice) const {
  return settled_ == choice && phase_ == Phase::kDecided && has_scales_;
}

void ScaleTrial::note(double seconds) {
  std::vector<double>* times = nullptr;
  if (phase_ == Phase::kWithout) times = &without_;
  if (phase_ == Phase::kWith) times = &with_;
  if (times != nullptr && times->size() < kMostScaleTimes) times->push_back(seconds);
}

void ScaleTrial::resume(const Choice& settled, bool has_scales) {
  *this = {};
  settled_ = settled;
  phase_ = Phase::kDecided;
  has_scales_ = has_scales;
}

bool ScaleTrial::judge() {
  const double part = median_of(with_) / median_of(without_);
  ++rounds_;
  has_scales_ = part <= kScalesHardlyLonger;
  const bool is_clear = has_scales_ || part >= kScalesMuchLonger || rounds_ == kMostScaleRounds;
  phase_ = is_clear ? Phase::kDecided : Phase::kWithout;
  return has_scales_;
}

}  // namespace ringpress::nccl_plugin::tuning
