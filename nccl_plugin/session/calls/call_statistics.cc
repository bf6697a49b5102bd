#include "nccl_plugin/session/calls/call_statistics.h"

#include "ringpress/internal/algorithms.h"

namespace ringpress::nccl_plugin {
namespace {

void add_call(std::uint64_t raw_bytes, std::uint64_t wire_bytes, CodecCalls* calls) {
  ++calls->calls;
  calls->raw_bytes += raw_bytes;
  calls->wire_bytes += wire_bytes;
}

}  // namespace

void CallStatistics::count(const EndedCall& call) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  if (!call.is_exact) {
    ++statistics_.compressed_calls;
    if (call.is_scaled) ++statistics_.scaled_calls;
  } else {
    exact_calls_.count(call.decision.why);
  }
  statistics_.nanoseconds += static_cast<std::uint64_t>(call.taken.count());
  statistics_.raw_bytes += call.raw_bytes;
  if (call.decision.is_observed()) {
    ++statistics_.observed_calls;
    statistics_.observed_raw_bytes += call.raw_bytes;
  }
  statistics_.residual_bytes = call.residual_bytes;
  statistics_.last_codec = call.is_exact ? kNoCodec : call.codec;
  if (call.has_parts) statistics_.last_codec.append(" and others, by part");
  if (call.wire_bytes) {
    add_call(call.raw_bytes, *call.wire_bytes, &statistics_.by_codec[statistics_.last_codec]);
  }
  statistics_.last_algorithm = algorithm_name(call.decision.algorithm);
  exact_calls_.set_last(call.decision.why);
}

void CallStatistics::begin(const std::string& codec, const char* algorithm) {
  const std::lock_guard lock(mutex_);
  statistics_.last_codec = codec;
  exact_calls_.set_last({});
  statistics_.last_algorithm = algorithm;
}

void CallStatistics::count_sent(const SentCall& call) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  ++statistics_.compressed_calls;
  statistics_.raw_bytes += call.raw_bytes;
  statistics_.wire_bytes += call.wire_bytes;
  statistics_.nanoseconds += static_cast<std::uint64_t>(call.taken.count());
  statistics_.residual_bytes = call.residual_bytes;
  statistics_.scaled_calls = call.scaled_calls;
  if (!call.is_followed) return;
  add_call(call.raw_bytes, call.wire_bytes, &statistics_.by_codec[statistics_.last_codec]);
}

void CallStatistics::count_exact(const WhyExact& why, std::optional<std::size_t> residual_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  exact_calls_.count(why);
  if (residual_bytes) statistics_.residual_bytes = *residual_bytes;
  statistics_.last_codec = kNoCodec;
  exact_calls_.set_last(why);
}

void CallStatistics::count_observed(std::uint64_t raw_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.observed_calls;
  statistics_.observed_raw_bytes += raw_bytes;
}

void CallStatistics::count_unbiased() {
  const std::lock_guard lock(mutex_);
  ++statistics_.unbiased_calls;
}

void CallStatistics::count_transfers(std::uint64_t raw_bytes) {
  const std::lock_guard lock(mutex_);
  ++statistics_.calls;
  statistics_.raw_bytes += raw_bytes;
}

WhyExact CallStatistics::why_not_begun(const Status& error) {
  const std::lock_guard lock(mutex_);
  return {ExactReason::kCannotBegin, 0, *errors_.insert(error.message()).first};
}

std::optional<Statistics> CallStatistics::now(ReportTime time) const {
  const auto lock = lock_for_report(mutex_, time);
  if (!lock.owns_lock()) return std::nullopt;
  Statistics now = statistics_;
  exact_calls_.write_to(&now);
  return now;
}

}  // namespace ringpress::nccl_plugin
