// What is counted of a communicator's calls.
#ifndef NCCL_PLUGIN_SESSION_MESH_CALL_STATISTICS_H_
#define NCCL_PLUGIN_SESSION_MESH_CALL_STATISTICS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>

#include "nccl_plugin/session/calls/exact_calls.h"
#include "nccl_plugin/session/end_report.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin {

/// A call that has ended.
struct EndedCall {
  const Decision& decision;
  bool is_exact = true;    // As its codec is.
  std::string_view codec;  // Specification.
  bool has_parts = false;  // With codecs of their own.
  std::uint64_t raw_bytes = 0;
  std::chrono::nanoseconds taken{};
  std::size_t residual_bytes = 0;  // Of the communicator.
};

/// Of one communicator. Any thread.
class CallStatistics {
 public:
  void count(const EndedCall& call);
  void count_put_off();
  /// Of count()ed calls: without error feedback, as a tensor is not known for certain.
  void count_unbiased();
  void count_transfers(std::uint64_t raw_bytes);
  /// `book(Statistics*)` adds what else is known.
  template <typename Book>
  void add(Book&& book) {
    const std::lock_guard lock(mutex_);
    book(&statistics_);
  }

  /// No value: at the exit, another thread is in the middle of it.
  std::optional<Statistics> now(ReportTime time) const;

 private:
  mutable std::mutex mutex_;
  Statistics statistics_;   // But for what is exact, and why:
  ExactCalls exact_calls_;  // these.
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_MESH_CALL_STATISTICS_H_
