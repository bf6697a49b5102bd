#include "nccl_plugin/interposer/comm/counters.h"

namespace ringpress::nccl_plugin::interposer {

void CallCounters::count_exact(const WhyExact& why, std::optional<std::size_t> kept_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  exact_calls_.count(why);
  if (kept_bytes) statistics_.residual_bytes = *kept_bytes;
  statistics_.last_codec = kNoCodec;
  exact_calls_.set_last(why);
}

void CallCounters::count_observed(std::uint64_t raw_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.observed_calls;
  statistics_.observed_raw_bytes += raw_bytes;
}

void CallCounters::begin(const std::string& codec, const char* algorithm) {
  const std::lock_guard lock(mutex_);
  statistics_.last_codec = codec;
  exact_calls_.set_last({});
  statistics_.last_algorithm = algorithm;
}

void CallCounters::finish(const StreamCall& call, std::uint64_t nanoseconds,
                          std::size_t kept_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  ++statistics_.compressed_calls;
  statistics_.raw_bytes += call.raw_bytes();
  statistics_.wire_bytes += call.sent_bytes();
  statistics_.nanoseconds += nanoseconds;
  statistics_.residual_bytes = kept_bytes;
}

WhyExact CallCounters::why_not_begun(const Status& error) {
  const std::lock_guard lock(mutex_);
  return {ExactReason::kCannotBegin, 0, *errors_.insert(error.message()).first};
}

std::optional<Statistics> CallCounters::now(ReportTime time) const {
  const auto lock = lock_for_report(mutex_, time);
  if (!lock.owns_lock()) return std::nullopt;
  Statistics now = statistics_;
  exact_calls_.write_to(&now);
  return now;
}

}  // namespace ringpress::nccl_plugin::interposer
