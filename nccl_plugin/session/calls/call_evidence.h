// What one rank's own buffers, pauses and values say of calls whose shapes leave open what they
// are.
//
// A gradient has a buffer of its own: at each place of the step the same one each time. Activations
// take what memory is free. And gradients come in a row while the program computes backward; then
// it computes forward: one pause of the step is long. Layers compute all the time. Where all calls
// are of one size, a step may be one call or many. One call comes after even pauses; many do not,
// as computing backward takes longer than forward; and their buffers come in turns. Calls of a
// program that computes nothing, such as a benchmark, are taken for gradients.
//
// Values are known on host memory alone (value_sample.h). Where times are not to be asked, only the
// buffers and values of a step of many sizes are enough.
#ifndef NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
#define NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_

#include <cstddef>
#include <deque>

#include "nccl_plugin/session/calls/value_sample.h"

namespace ringpress::nccl_plugin {

/// Of the last calls of one communicator. Pure: no clocks.
class CallEvidence {
 public:
  /// Equal calls of one buffer that are looked at before they are taken for gradients.
  static constexpr std::size_t kEqualCalls = 128;

  struct Seen {
    const void* address = nullptr;
    double pause_seconds = -1;  // Before it; below 0: not known.
    double call_seconds = 0;    // The call before it took.
    bool is_all_reduce = true;  // Others are of the step, and nothing else is asked of them.
  };

  void note(const Seen& seen);
  /// Of each call of the steps that are looked at, or of none.
  ValueEvidence& values() { return values_; }
  /// Of what came before nothing counts any more.
  void forget_calls() {
    seen_.clear();
    values_.clear();
  }
  /// Steps of so many calls repeat from the last call on. `has_many_sizes`: most of them have a
  /// size of their own.
  void begin_steps(std::size_t period, bool has_many_sizes);

  /// Whether anything can be said of the steps that began.
  bool is_enough() const;
  bool looks_like_gradients() const;

 private:
  std::size_t most() const;
  bool has_times() const;
  bool computes_nothing() const;
  std::size_t calls_of_step() const;
  bool has_own_buffers(std::size_t period) const;
  std::size_t all_reduces_of_step(std::size_t period) const;
  bool pauses_once_a_step(std::size_t period) const;
  bool has_even_pauses() const;

  std::deque<Seen> seen_;  // The last calls.
  ValueEvidence values_;
  std::size_t period_ = 1;
  bool has_many_sizes_ = false;
};

}  // namespace ringpress::nccl_plugin

#endif  // NCCL_PLUGIN_SESSION_CALLS_CALL_EVIDENCE_H_
