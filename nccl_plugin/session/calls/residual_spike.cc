#include "nccl_plugin/session/calls/residual_spike.h"

#include <algorithm>
#include <cmath>

namespace ringpress::nccl_plugin {
namespace {

constexpr float kTimes = 50;
// Of what is usual, after each call that is smaller: gradients may be large in every tenth step.
constexpr float kKept = 0.95F;
// Values that are looked at, evenly, and the share of them that a spike leaves too large: it may be
// in the shard alone that this rank reduces.
constexpr std::size_t kSample = 256, kShare = 32;

/// Of what is not finite: 0. It is an overflow's.
float size_of(float value) {
  return std::isfinite(value) ? std::abs(value) : 0.0F;
}

}  // namespace

bool drop_spike(float* residual, std::size_t count, float* usual) {
  if (residual == nullptr || count == 0) return false;
  const std::size_t step = std::max<std::size_t>(count / kSample, 1);
  const float largest = kTimes * *usual;
  float sum = 0;
  std::size_t samples = 0, large = 0;
  for (std::size_t i = 0; i < count; i += step, ++samples) {
    const float size = size_of(residual[i]);
    sum += size;
    large += size > largest ? 1 : 0;
  }
  const bool is_spike = *usual > 0 && kShare * large >= samples;
  *usual = std::max(sum / static_cast<float>(samples), kKept * *usual);
  if (is_spike) std::fill_n(residual, count, 0.0F);
  return is_spike;
}

}  // namespace ringpress::nccl_plugin
