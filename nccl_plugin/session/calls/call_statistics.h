// What is counted of a communicator's calls.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_STATISTICS_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_STATISTICS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "nccl_plugin/session/calls/exact_calls.h"
#include "nccl_plugin/session/end_report.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/decision.h"
#include "ringpress/internal/status.h"

namespace ringpress::nccl_plugin {

/// A call that has ended, compressed or not.
struct EndedCall {
  const Decision& decision;
  bool is_exact = true;    // As its codec is.
  std::string_view codec;  // Specification.
  bool has_parts = false;  // With codecs of their own.
  bool is_scaled = false;  // By coordinate.
  std::uint64_t raw_bytes = 0;
  std::chrono::nanoseconds taken{};
  std::size_t residual_bytes = 0;           // Of the communicator.
  std::optional<std::uint64_t> wire_bytes;  // Where calls are followed: sent in it.
};

/// A compressed call that has ended, where its codec was told of when it began.
struct SentCall {
  std::uint64_t raw_bytes = 0;
  std::uint64_t wire_bytes = 0;
  std::chrono::nanoseconds taken{};
  std::size_t residual_bytes = 0;
  std::uint64_t scaled_calls = 0;  // Of the communicator, as far as is known.
  bool is_followed = false;        // Counted by codec, too: that of the call that began last.
};

/// Of one communicator. Any thread.
class CallStatistics {
 public:
  void count(const EndedCall& call);
  /// A compressed call begins, by `algorithm`, which outlives it.
  void begin(const std::string& codec, const char* algorithm);
  void count_sent(const SentCall& call);
  /// A call for which nothing is done here. `residual_bytes`: if they may have changed.
  void count_exact(const WhyExact& why, std::optional<std::size_t> residual_bytes = {});
  /// It would have been compressed, but for RINGPRESS=observe.
  void count_observed(std::uint64_t raw_bytes);
  /// Of count()ed calls: without error feedback, as a tensor is not known for certain.
  void count_unbiased();
  void count_transfers(std::uint64_t raw_bytes);
  /// `book(Statistics*)` adds what else is known.
  template <typename Book>
  void add(Book&& book) {
    const std::lock_guard lock(mutex_);
    book(&statistics_);
  }
  /// That a call could not begin, as this error says: lives as long as this.
  WhyExact why_not_begun(const Status& error);

  /// No value: at the exit, another thread is in the middle of it.
  std::optional<Statistics> now(ReportTime time) const;

 private:
  mutable std::mutex mutex_;
  Statistics statistics_;   // But for what is exact, and why.
  ExactCalls exact_calls_;  // What is exact, and why.
  std::set<std::string> errors_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_STATISTICS_H_
