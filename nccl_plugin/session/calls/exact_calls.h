// Calls that were not compressed, by reason.
#ifndef NCCL_PLUGIN_SESSION_CALLS_EXACT_CALLS_H_
#define NCCL_PLUGIN_SESSION_CALLS_EXACT_CALLS_H_

#include <cstdint>
#include <map>
#include <string>

#include "ringpress/internal/communicator.h"
#include "ringpress/internal/decision.h"

namespace ringpress::nccl_plugin {

/// Of one communicator, whose codecs' names outlive this. No call makes a text, nor, after the
/// first one of its reason, asks for memory.
class ExactCalls {
 public:
  void count(const WhyExact& why) { ++counts_[why]; }
  /// Why the last call was exact, or that it was not.
  void set_last(const WhyExact& why) { last_ = why; }

  /// Writes them as people read them.
  void write_to(Statistics* statistics) const {
    statistics->exact_calls.clear();
    for (const auto& [why, count] : counts_) statistics->exact_calls[to_text(why)] += count;
    statistics->last_reason = to_text(last_);
  }

 private:
  std::map<WhyExact, std::uint64_t> counts_;
  WhyExact last_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_EXACT_CALLS_H_
