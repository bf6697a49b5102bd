// What is counted of a communicator's calls, for RINGPRESS_STATS.
#ifndef NCCL_PLUGIN_INTERPOSER_COMM_COUNTERS_H_
#define NCCL_PLUGIN_INTERPOSER_COMM_COUNTERS_H_

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "nccl_plugin/interposer/calls/stream_call.h"
#include "nccl_plugin/session/calls/exact_calls.h"
#include "nccl_plugin/session/end_report.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin::interposer {

/// Of one communicator. Any thread.
class CallCounters {
 public:
  /// A call that the real library makes. `kept_bytes`: of residuals, if a call may have changed it.
  void count_exact(const WhyExact& why, std::optional<std::size_t> kept_bytes);
  /// It would have been compressed, but for RINGPRESS=observe.
  void count_observed(std::uint64_t raw_bytes);
  /// A compressed call begins, by `algorithm`, which outlives it; and has ended.
  void begin(const std::string& codec, const char* algorithm);
  void finish(const StreamCall& call, std::uint64_t nanoseconds, std::size_t kept_bytes);
  /// That a call could not begin, as this error says: lives as long as this.
  WhyExact why_not_begun(const Status& error);

  /// No value: at the exit, another thread is in the middle of it.
  std::optional<Statistics> now(ReportTime time) const;

 private:
  mutable std::mutex mutex_;
  Statistics statistics_;   // But for what is exact, and why:
  ExactCalls exact_calls_;  // these, and what errors said.
  std::set<std::string> errors_;
};

}  // namespace ringpress::nccl_plugin::interposer

#endif  // NCCL_PLUGIN_INTERPOSER_COMM_COUNTERS_H_
