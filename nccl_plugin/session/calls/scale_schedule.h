// After which of a tensor's calls coordinate scales are learnt and measured. By its count of calls
// alone, which is equal on all ranks.
#ifndef NCCL_PLUGIN_SESSION_CALLS_SCALE_SCHEDULE_H_
#define NCCL_PLUGIN_SESSION_CALLS_SCALE_SCHEDULE_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace ringpress::nccl_plugin {

/// The first call that is_measured().
inline constexpr std::uint64_t kFirstMeasuredCall = 2;

/// 2, 4, 8 to 64 and then each 64th. All of them are learnt from, too.
inline bool is_measured_for_scales(std::uint64_t calls) {
  constexpr std::uint64_t kMeasuredEach = 64;
  return calls % kMeasuredEach == 0 ||
         (calls >= kFirstMeasuredCall && calls < kMeasuredEach && std::has_single_bit(calls));
}

/// Each up to the 31st, each 2nd up to the 63rd, and so on to each 32nd.
inline bool is_learnt_for_scales(std::uint64_t calls) {
  constexpr std::uint64_t kLearntAtLeastEach = 32;
  return calls % std::clamp<std::uint64_t>(std::bit_floor(calls) / 16, 1, kLearntAtLeastEach) == 0;
}

/// Of a result, in the running mean of squares.
inline float weight_for_scales(std::uint64_t calls) {
  return std::max(0.1f, 1.0f / static_cast<float>(calls));
}

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_SCALE_SCHEDULE_H_
