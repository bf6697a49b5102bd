// RINGPRESS_LAZY: all-reduces of gradients that are put off until enough has come together.
//
// Each rank adds a tensor's gradients up, call by call, and votes: how long the sum has become,
// over the mean length of the single gradients in it. (Gradients that agree grow with their number,
// noise with its root.) The largest vote of all ranks decides, so that they all do the same:
//
//   below RINGPRESS_LAZY   the result of the call is zeros, and what was added up stays
//   else                   what has been added up is all-reduced in its place, and begins anew
//
// Also where a rank does not know the tensor or has no place for a sum, and in every
// RINGPRESS_LAZY_CALLS-th call of a tensor. Values that are not finite on some rank are sent by
// themselves: the program will throw that result away. (A rank that has begun to send its sum
// before it hears of them keeps what was added up before the call.) Nothing of float16 is put off:
// sums might not fit it, and what is trained in it is multiplied by a scale that changes. This is
// an algorithm of its own, near those that aggregate gradients lazily (Chen et al., LAG, 2018); the
// program's optimizer sees fewer and larger steps.
//
// How ranks tell each other their votes, and where sums lie, is the doors' affair: lazy_votes.h and
// host memory behind the host library, interposer/stream/stream_lazy.h before a library on a
// device.
#ifndef NCCL_PLUGIN_SESSION_LAZY_LAZY_CALLS_H_
#define NCCL_PLUGIN_SESSION_LAZY_LAZY_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nccl_plugin/session/calls/error_feedback.h"
#include "nccl_plugin/session/end_report.h"
#include "nccl_plugin/session/lazy/lazy_memory.h"
#include "nccl_plugin/session/lazy/lazy_sums.h"
#include "ringpress/internal/communicator.h"
#include "ringpress/internal/planner.h"
#include "ringpress/internal/settings.h"

namespace ringpress::nccl_plugin {

/// The largest of all ranks' decides.
enum class LazyVote : std::uint8_t { kPutOff = 0, kSend = 1, kNotFinite = 2 };

/// Whether such a call may be put off. What a rule or the call itself leaves as it is comes at
/// once. The same on all ranks.
bool may_be_put_off(const CallSettings& settings, const Planner& planner,
                    const PlanRequest& request);

/// Of one communicator. One thread at a time, and besides it what reports. A call is voted on, then
/// what it comes to follows from the largest vote; one that is not put off is sent now, and then
/// concluded. An error ends the communicator.
class LazyCalls {
 public:
  /// `memory` outlives this.
  LazyCalls(const CallSettings& settings, LazyMemory& memory, int rank, int size,
            std::shared_ptr<CallSequence> sequence = std::make_shared<CallSequence>());

  static bool is_wanted(const CallSettings& settings) {
    return settings.lazy > 0 && compresses(settings.mode);
  }
  /// This rank's vote on a call, whose values stay as they are until conclude() or until it is put
  /// off.
  Result<LazyVote> vote(const TensorCall& call, const void* values);

  struct Decision {
    bool is_put_off = false;
    bool has_sum = false;  // What write_sum() gives is to be sent instead of the values.
  };
  /// `largest`: of all ranks' votes, or as much of it as is known. What is put off is added up.
  Result<Decision> follow(LazyVote largest);
  /// Writes what has been added up, with this call's values, to `to`, of the tensor's count and
  /// type, which may be the values.
  Status write_sum(void* to);
  /// The call has been sent: its sum begins anew, unless a rank had values that are not finite.
  Status conclude(LazyVote largest);

  /// This rank votes to send the next call of every tensor that is known now, which is enough.
  void flush();

  /// What this rank has put off and not sent, what was given up included.
  UnsentSums count_unsent() const;
  /// The same, when the communicator or the process ends: no buffer is there that it could go to. A
  /// warning says of it, and `statistics` do.
  void book_unsent(Statistics* statistics, ReportTime time) const;

  /// Memory held, in bytes.
  std::size_t bytes() const { return sums_.bytes(); }

 private:
  /// The call that was voted on last.
  struct Asked {
    SumOfCalls* sum = nullptr;  // That its values may be added to; null: none.
    GradientSpan gradient;
    Lengths lengths;
  };

  bool fits(const Asked& asked) const;
  bool is_due(const Asked& asked) const;

  const double threshold_;
  const std::size_t most_calls_;
  const int rank_;
  const int size_;
  LazyMemory& memory_;
  mutable std::mutex mutex_;  // Guards what is unsent. No gradient is waited for with it.
  LazySums sums_;
  Asked asked_;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_LAZY_LAZY_CALLS_H_
